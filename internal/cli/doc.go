// Package cli holds the commands that ask a replica through its API ([client.Client]): those that only read, and those
// that change something. With --config they go to the store themselves when no replica is up.
//
// Tables are for people and may gain columns; scripts read -o json, which is what the API answers. Commands end with an
// [Exit] where the code is not 1, and leave it to the caller to print errors and to exit: see [Report].
// [Live] shows a cluster for `shardctl dev` as well.
package cli
