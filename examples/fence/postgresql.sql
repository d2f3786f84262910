-- A fence in PostgreSQL and SQLite, in the transaction of the work. :key is what is owned, :token the owner's token.

CREATE TABLE IF NOT EXISTS fences (
    fence_key TEXT NOT NULL PRIMARY KEY,
    exclusive_token BIGINT NOT NULL,
    shared_token BIGINT NOT NULL
);

-- The first statement of the transaction. One row was written: go on. None: the token is old, so roll back.
INSERT INTO fences AS f (fence_key, exclusive_token, shared_token) VALUES (:key, :token, 0)
ON CONFLICT (fence_key) DO UPDATE SET exclusive_token = excluded.exclusive_token
WHERE f.exclusive_token <= excluded.exclusive_token AND f.shared_token <= excluded.exclusive_token;
