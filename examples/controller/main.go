// Command controller reconciles ConfigMaps with several replicas at once, each its share: every object has a slot, and
// a replica reconciles the objects of the slots that it owns. It has no leader, no webhook and no CRD.
//
//	go run . -store sqlite:controller.db -instance a
//	go run . -store sqlite:controller.db -instance b
//
// It writes a hash of each ConfigMap's data into an annotation. In a cluster the store is a server, as PostgreSQL.
package main

import (
	"flag"
	"log"
	"os"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
)

func main() { start(hashData) }

// start takes part with the flags of the command line.
func start(reconcile reconciler) {
	o := options{}
	flag.StringVar(&o.store, "store", os.Getenv("SHARDCTL_STORE_URI"), "URI of the store that all replicas share")
	flag.StringVar(&o.instance, "instance", "", "name of this replica; default: the host name")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the ConfigMaps; empty: all")
	flag.StringVar(&o.metrics, "metrics", ":8080", "address of the metrics; 0: none")
	flag.IntVar(&o.slots, "slots", 256, "number of slots, the same in all replicas for good")
	flag.IntVar(&o.workers, "workers", 8, "how many objects this replica reconciles at a time")
	flag.DurationVar(&o.lease, "lease", 10*time.Second, "how long a replica may be silent before others take its slots")
	flag.DurationVar(&o.settle, "settle", 5*time.Second, "how long no replica came or went before slots move for balance")
	flag.Parse() // also --kubeconfig, which controller-runtime declares
	ctrl.SetLogger(klog.Background())
	cfg, err := ctrl.GetConfig()
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), cfg, o, reconcile)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// options are the flags.
type options struct {
	store, instance, namespace, metrics string
	slots, workers                      int
	lease, settle                       time.Duration
}
