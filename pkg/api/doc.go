// Package api holds what the HTTP API of shardctl says: the types of its JSON, once, for those who serve it and for
// those who read it. [github.com/shardctl/shardctl/pkg/client] is the client.
//
// The JSON is a contract: fields are added, never renamed or left out. Absent texts are "", absent times are null,
// lists and maps are never null. Who reads it ignores fields that it does not know, and takes words that it does not
// know, such as a new reason or a new type of event, as they are.
//
// The comments on types and their fields are the descriptions in openapi.json.
//
// Everything here is a plain value. The package needs the standard library alone.
package api
