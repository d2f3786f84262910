// Package client reads and changes a cluster of shardctl over HTTP, from Go.
//
//	c, err := client.New("http://127.0.0.1:8081", client.WithTokenFile("/etc/shardctl/token"))
//	…
//	tasks, err := c.Tasks().List(ctx, client.Filter{Group: "topics", State: "backoff,failed"})
//	…
//	_, err = c.Instances().Drain(ctx, "web-1", client.ChangeOptions{Reason: "a new kernel"})
//
// A [Client] asks about the cluster as a whole. [Client.Tasks], [Client.Groups], [Client.Instances], [Client.Locks],
// [Client.Owners] and [Client.Events] are for one kind of object each: they list, get and watch it, and ask for the
// changes that it takes.
//
// Any replica answers for the whole cluster, so the address may be that of a Service. What only reads is served at
// server.listen, and at admin.listen as well; changes are taken at admin.listen alone. The types of what is read are in
// [github.com/shardctl/shardctl/pkg/api].
//
// # Errors
//
// What a replica refuses is an [*api.Error], with the status of HTTP, one word for programs and a sentence for people:
//
//	var refused *api.Error
//	if errors.As(err, &refused) { log.Print(refused.Reason, refused.Detail) }
//	if errors.Is(err, client.ErrNotFound) { … }
//	if errors.Is(err, &api.Error{Reason: api.RefusedNoCapacity}) { … }
//
// A change that holds for some of the tasks that were selected and not for others returns a result and a
// [*RefusedError]. Any other error says that no answer came, or none that makes sense: the replica was not reached,
// which is a *url.Error inside, or the context or the time of one request was over, which is its cause. A change may
// have been made all the same then; to ask for it again with the same [ChangeOptions].ID is safe.
//
// # What is not promised
//
// What is read is what one replica saw last, some moments behind the store. While the store is unreachable it is the
// last that was seen, marked as stale: [WithStale] hears of it. Nothing that must be exact, such as who may run a task,
// may hang on it: that is what fencing tokens are for.
//
// The package needs the standard library alone. No function panics.
package client
