// Package config holds what people start from, the sample configurations, and the JSON Schema that the program checks
// every configuration against.
package config

import _ "embed"

// Schema is the JSON Schema of a configuration, draft 2020-12. Editors that know JSON Schema check and complete
// configurations by it; what it cannot say, the program checks besides.
//
//go:embed shardctl.schema.json
var Schema []byte
