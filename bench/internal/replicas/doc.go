// Package replicas measures real replicas, guard and worker, whose tasks write the time into files.
package replicas
