package docs_test

// The stores that configurations on these pages name.
import (
	_ "github.com/shardctl/shardctl/pkg/elect/etcdstore"
	_ "github.com/shardctl/shardctl/pkg/elect/mongostore"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/mysql"
	_ "github.com/shardctl/shardctl/pkg/elect/sqlstore/sqlite"
	_ "github.com/shardctl/shardctl/pkg/elect/zkstore"
)
