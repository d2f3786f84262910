-- A fence in MySQL and MariaDB, in the transaction of the work. :key is what is owned, :token the owner's token.

CREATE TABLE IF NOT EXISTS fences (
    fence_key VARBINARY(512) NOT NULL PRIMARY KEY,
    exclusive_token BIGINT NOT NULL,
    shared_token BIGINT NOT NULL
) ENGINE=InnoDB;

-- The first statement of the transaction: it makes the row of the key, or locks the one that is there.
INSERT INTO fences (fence_key, exclusive_token, shared_token) VALUES (:key, 0, 0)
ON DUPLICATE KEY UPDATE exclusive_token = exclusive_token;

-- 1: go on. 0: the token is old, so roll back. FOR UPDATE: a plain read shows what was there before.
SELECT exclusive_token <= :token AND shared_token <= :token FROM fences WHERE fence_key = :key FOR UPDATE;

UPDATE fences SET exclusive_token = :token WHERE fence_key = :key;
