// Package helm holds the chart, in shardctl/, and the schema of its values. values.schema.json in the chart is made of
// values.schema.base.json and of the configuration's own schema, since the value config is a configuration.
//
//	go test ./helm -update    after a change of either
package helm
