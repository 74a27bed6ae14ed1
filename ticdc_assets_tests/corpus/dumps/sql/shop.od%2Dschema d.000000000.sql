/*!40014 SET FOREIGN_KEY_CHECKS=0*/;
/*!40101 SET NAMES binary*/;
INSERT INTO `od-schema d` VALUES
(1,'x'),
(2,'y');
