// Schemas keeps the schemas against which the rendered chart is checked, for every version of Kubernetes that the chart
// supports.
//
//	go run ./schemas make          downloads the sources and writes schemas/schemas.json (minutes, when a version or
//	                               a kind is added)
//	go run ./schemas write DIR     writes from it what kubeconform reads: DIR/1.29/deployment-apps-v1.json, …
//
// schemas.json is in the repository, so that the checks need no download of a few hundred megabytes. It holds only the
// kinds that a chart like ours has, without descriptions. Each definition is there once for all versions in which it is
// the same.
//
// They are stricter than the API server, which drops what it does not know: an unknown field is an error, and so is a
// status.
package main
