package main

// The stores that URIs can name: to import one registers it.
import (
	_ "github.com/shardctl/shardctl/pkg/elect/etcdstore"
	_ "github.com/shardctl/shardctl/pkg/elect/mongostore"
	_ "github.com/shardctl/shardctl/pkg/elect/quorumstore"
	_ "github.com/shardctl/shardctl/pkg/elect/redisstore"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/mysql"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/postgres"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/sqlite"
	_ "github.com/shardctl/shardctl/pkg/elect/zkstore"
)
