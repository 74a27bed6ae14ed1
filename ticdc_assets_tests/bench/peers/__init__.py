"""What a data team without this project would write for the same stream, with each tool used as well as possible.

They keep what Canal-JSON says: ENUM and SET as numbers, binary as text; this project also finds the labels and the
bytes. None of them keeps a changelog but the plain Python loop, none follows a change of schema.
"""
