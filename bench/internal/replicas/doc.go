// Package replicas measures real replicas, guard and worker, whose tasks stamp the time into files.
package replicas
