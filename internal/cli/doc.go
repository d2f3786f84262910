// Package cli holds the commands that only read: status, get, wait and healthcheck. They ask a replica through its API
// ([status.Client]) or, with --config, read the store themselves when no replica is up.
//
// Tables are for people and may gain columns; scripts read -o json, which is what the API answers. Commands end with an
// [Exit] where the code is not 1, and leave it to the caller to print errors and to exit: see [Report].
package cli
