// Package runs keeps the last runs of tasks in the store, for people: written soon after they end, and in batches.
package runs
