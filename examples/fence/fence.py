"""Saves how far a topic has been read, and refuses an old fencing token:

    python3 examples/fence/fence.py offsets.db topic-001 42 1700000000123

It needs nothing but Python 3.9 or later. fence.go beside it does the same in Go, on the same table of tokens. It exits
with status 3 when the token is old.
"""

import sqlite3
import sys

SCHEMA = """
CREATE TABLE IF NOT EXISTS offsets (topic TEXT PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS fences (
    fence_key TEXT NOT NULL PRIMARY KEY, exclusive_token INTEGER NOT NULL, shared_token INTEGER NOT NULL
);
"""

# For psycopg and PostgreSQL: the same statement, with %s for each question mark.
CHECK = """
INSERT INTO fences AS f (fence_key, exclusive_token, shared_token) VALUES (?, ?, 0)
ON CONFLICT (fence_key) DO UPDATE SET exclusive_token = excluded.exclusive_token
WHERE f.exclusive_token <= excluded.exclusive_token AND f.shared_token <= excluded.exclusive_token
"""


class OldToken(Exception):
    """Another owner has followed. To try again is of no use."""


def check(cursor, key, token):
    """Passes a token in the transaction of its work. Call it first, and roll back when it raises."""
    if cursor.execute(CHECK, (key, token)).rowcount != 1:
        raise OldToken(f"token {token} of {key} is old: another owner has followed")


def save(db, topic, position, token):
    """Saves how far a topic has been read. Token and work are in one transaction."""
    with db:  # commits, or rolls back when something is raised
        cursor = db.cursor()
        check(cursor, f"topics/{topic}", token)
        cursor.execute(
            "INSERT INTO offsets (topic, position) VALUES (?, ?) "
            "ON CONFLICT (topic) DO UPDATE SET position = excluded.position",
            (topic, position),
        )


def main():
    path, topic, position, token = sys.argv[1:]
    db = sqlite3.connect(path, timeout=60)
    db.executescript(SCHEMA)
    try:
        save(db, topic, int(position), int(token))
    except OldToken as error:
        print(error)
        sys.exit(3)
    finally:
        db.close()


if __name__ == "__main__":
    main()
