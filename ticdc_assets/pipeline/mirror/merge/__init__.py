"""The merge of a changelog's segment into a mirror by workers."""
