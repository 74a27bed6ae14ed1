"""The grammar: DDL text to statements. Text that is not understood in full is a SchemaError."""
