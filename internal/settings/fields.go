package settings

import (
	"regexp"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
)

// FieldsOf lists the fields of a configuration. What is live can change while a replica runs, all else waits for a
// restart. What is printed of the groups is given.
func FieldsOf(s *Settings, groups any) field.List {
	return field.List{
		{
			Name: "version", Live: true, Doc: "Version of this format.", Page: "The version of this format. Default: " +
				"`1`.",
			Value: field.Elsewhere{Members: []string{field.Ref("version")}, Shows: 1},
		},
		setting("cluster", field.Literal{
			To: &s.Cluster, Default: DefaultCluster, Type: "clusterName", Valid: clusterName.MatchString,
		}, "Several clusters can share one database; names collections, page and logs."),
		{
			Name: "instance", Doc: "Name of this replica.", Unset: "the host name",
			Page:  "Name of this replica; each replica has its own.",
			Value: field.Literal{To: &s.Instance, Default: HostName(), Type: "dnsName", Valid: IsDNSName},
		},
		setting("zone", field.Literal{To: &s.Zone, Type: "labelValue", Valid: field.IsLabelValue},
			"What of a group does not divide evenly over instances goes to the zones that have fewest. "+
				"Empty: unknown.",
			"Tasks that do not divide evenly go to the zones that have fewest. It counts once every instance that may "+
				"own them has a zone. Default: empty: unknown."),
		setting("labels", field.Labels{To: &s.Labels}, "Labels of this instance; groups select by them."),
		{
			Name: "revision", Value: field.Counter{To: &s.Revision, Type: "revision"}, Live: true,
			Doc: "Revision of the task lists: where replicas differ, the higher one holds.",
			Page: "Revision of the task lists. Where replicas differ, the higher one holds: raise it with each " +
				"change of the lists.",
		},
		setting("maxTasks", field.Number{To: &s.MaxTasks, Type: "count"},
			"Most tasks this instance owns over all groups. 0: no limit."),
		setting("rollout", field.Literal{To: &s.Rollout, Type: "labelValue", Valid: field.IsLabelValue},
			"What this replica was started from, such as a pod-template-hash: while two run side by side, keys that "+
				"move go to the newer. Default: the program's version and a hash of it.",
			"Names what this replica was started from. While two run side by side, tasks that move go to the newer. A "+
				"label's value. Default: version and a hash of the program."),
		section("pod", "Restart in place: with all three, a container that is started again in the same pod takes its "+
			"own keys back at once, and does not wait for the lease.", s.Pod.fields()),
		section("store", "Where locks are kept.", s.Store.fields()),
		section("lease", "How long a replica may be silent before its tasks run elsewhere.", s.Lease.fields()),
		section("rebalance", "How eagerly tasks move for balance alone.", s.Rebalance.fields()),
		section("shutdown", "The drain after SIGTERM.", field.List{setting("timeout",
			field.Duration{To: &s.Shutdown.Timeout, Default: 25 * time.Second}, "How long tasks get after SIGTERM.")}),
		section("server", "Page, API, metrics, health; reads only.", s.Server.fields()),
		section("app", "The application beside this replica: the process that runs tasks with assign. It asks what it "+
			"may run at listen.", s.App.fields()),
		section("admin", "All that the server shows, and the changes.", s.Admin.fields()),
		section("metrics", "", field.List{setting("perTask",
			field.Truth{To: &s.Metrics.PerTask, Named: true}, "A label `task` on the metrics of tasks: many series.")}),
		section("log", "", field.List{
			setting("level", field.Literal{To: &s.Log.Level, Default: "info", Type: "logLevel"}, "",
				"`debug`, `info`, `warn` or `error`."),
			setting("format", field.Literal{To: &s.Log.Format, Default: "json", Type: "logFormat"}, "",
				"`json` or `console`."),
		}),
		{
			Name: "groups", Live: true, Doc: "Sets of tasks, each balanced under one cap.",
			Value: field.Elsewhere{
				Members: []string{`"type": "array"`, `"items": {` + field.Ref("group") + `}`}, Shows: groups,
			},
		},
	}
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// setting is a field that waits for a restart. The page of the configuration may say more of it than the schema does.
func setting(name string, value field.Value, doc string, page ...string) field.Field {
	return field.Field{Name: name, Value: value, Doc: doc, Page: strings.Join(page, "")}
}

// section is a mapping of settings.
func section(name, doc string, fields field.List) field.Field {
	return setting(name, field.Mapping{Fields: fields, Sorted: true}, doc)
}

func (p *Pod) fields() field.List {
	return field.List{
		setting("uid", field.Literal{To: &p.UID}, "The pod's UID. Default: $(POD_UID). Empty: no restart in place.",
			"The pod's UID, for [restart in place](#restart-in-place); empty: off. Default: `$(POD_UID)`."),
		setting("container", field.Literal{To: &p.Container}, "The container's name in its pod.",
			"The container's name in its pod. `pod.container` and `pod.dir`: both or neither."),
		setting("dir", field.Literal{To: &p.Dir}, "A directory on a volume that outlives the container and goes with "+
			"the pod, such as an emptyDir; of this container alone."),
	}
}

func (s *Store) fields() field.List {
	return field.List{
		setting("uri",
			field.Elsewhere{Members: []string{field.Ref("text")}, Shows: s.Masked(), Holds: s.Lasting()},
			"SCHEME://… of a server, sqlite:PATH (one machine) or quorum:URI,URI,URI, as docs/stores lists them. Best "+
				"taken from the environment, since it may hold a password.",
			"`SCHEME://…` of a server or `sqlite:PATH`: [stores](stores/README.md). Take it from the environment, "+
				"since it may hold a password. Default: required."),
		{
			Name: "database", Value: field.Literal{To: &s.Database, Default: "shardctl"},
			Off:  s.Database == "" || s.DatabaseHidden,
			Doc:  "Name of the database, of stores that keep several on one server. Default: the URI's, else shardctl.",
			Page: "Name of the database, of servers that keep several. Default: the URI's, else `shardctl`.",
		},
	}
}

func (l *Lease) fields() field.List {
	return field.List{
		setting("duration", field.Duration{To: &l.Duration, Default: DefaultLease, Zero: true}, "At least 1s.",
			"T: a replica that is silent for so long has lost its tasks. From 1s to 24h."),
		setting("renewDeadline", field.Duration{To: &l.RenewDeadline, Default: DefaultLease * 3 / 4, Zero: true},
			"Tasks are cancelled when no heartbeat was acknowledged for so long. Default, and at most: three quarters "+
				"of duration.",
			"Tasks are cancelled when no heartbeat was acknowledged for so long. At most ¾ of duration. Default: ¾ of "+
				"duration."),
	}
}

func (r *Rebalance) fields() field.List {
	return field.List{
		setting("settle", field.Duration{To: &r.Settle, Default: DefaultSettle, Zero: true},
			"Membership must have been stable for so long."),
		setting("maxMoves", field.Number{To: &r.MaxMoves, Type: "count"}, "Hand-overs at once per group. 0: no limit.",
			"Hand-overs under way at once, per group, on this replica. 0: no limit."),
		setting("onRestart",
			field.Literal{To: (*string)(&r.OnRestart), Default: string(OnRestartMove), Type: "onRestart"},
			"What becomes of the tasks of a replica that is restarted in order: others take them at once, or they "+
				"wait for it for restartGrace.",
			"When a replica stops in order: others take its tasks at once (`move`), or the tasks `wait` for it."),
		setting("restartGrace", field.Duration{To: &r.RestartGrace, Zero: true},
			"With onRestart: wait, how long tasks wait for the replica to come back.",
			"With `wait`: for how long; then it is more than 0s. With `move` it is an error."),
	}
}

func (s *Server) fields() field.List {
	return field.List{
		setting("listen", field.Literal{To: &s.Listen, Default: ":8080", Type: "listen", Valid: IsAddress},
			"Where to listen."),
		setting("advertise", field.Literal{To: &s.Advertise},
			"HOST:PORT where other replicas reach it. Default: $(POD_IP), or the machine's address.",
			"HOST or HOST:PORT where other replicas reach `server.listen`. Default: `$(POD_IP)`, or the machine's "+
				"address."),
		setting("hosts", field.Literals{
			To: &s.Hosts, Must: "a name or an address, without a port",
			Valid: func(host string) bool { return host != "" && IsHost(host) },
		}, "Names under which both listeners are asked; requests with another Host are refused. None: over loopback "+
			"alone.",
			"The names under which both listeners are asked, beside loopback names, addresses and `server.advertise`; "+
				"a request with another Host is refused. Without any, that is so over loopback alone. Default: none."),
		setting("logs", field.Literal{To: (*string)(&s.Logs), Default: string(ServeLogsAuto), Type: "serveLogs"},
			"Show what tasks write here. auto: to those with a token, and on loopback where no token is asked for.",
			"Show what tasks write: their output, and the errors they end with. `true`, `false`, or `auto`: to those "+
				"with a token, and without `admin.tokensFile` on loopback alone. `admin.listen` always shows it."),
		setting("route", field.Truth{To: &s.Route, Named: true},
			"Forward requests under /route/GROUP/NAME/ to the address of the key's owner.",
			"Forward requests under `/route/GROUP/NAME/` to the [owner of the key](routing.md#through-a-replica). It "+
				"asks for no token."),
		setting("tls", field.Mapping{Fields: append(s.TLS.fields(), setting("caFile",
			field.Literal{To: &s.TLS.CAFile},
			"PEM file of the authorities by which other replicas are trusted. Default: the system's.",
			"PEM file of the authorities by which other replicas are trusted; read again when it changes. Default: "+
				"the system's."))}, aboutTLS,
			"Certificate and key, PEM files: both or neither; read again when they change."),
	}
}

func (a *App) fields() field.List {
	return field.List{
		setting("listen", field.Literal{To: &a.Listen},
			"unix:/PATH, or HOST:PORT on loopback. Empty: there is no application.",
			"Where the [application](#the-application) calls: `unix:/PATH`, or HOST:PORT on loopback. The directory "+
				"of PATH belongs to the replica's user or to root, and group and others may not write to it; one that "+
				"is missing is made. Default: empty: none."),
		setting("tokenFile", field.Literal{To: &a.TokenFile},
			"A file with the token that requests of the application must bear. Needed on HOST:PORT without command.",
			"A file with the token that its requests bear; required on HOST:PORT without `command`, and not allowed "+
				"with it; read at each request."),
		setting("command", field.Literals{To: &a.Command}, "Program and arguments. The replica starts it, again when "+
			"it ends, and sets SHARDCTL_APP. Left out: others start the application."),
		setting("address", field.Literal{To: &a.Address}, "HOST:PORT where requests for the keys of this replica go."),
	}
}

func (a *Admin) fields() field.List {
	return field.List{
		setting("listen", field.Literal{To: &a.Listen, Default: "127.0.0.1:8081", Type: "listen", Valid: IsAddress},
			"Where to listen.",
			"Where the command line asks; another address than `server.listen`. It serves the same reads, and takes "+
				"[changes](http-api.md#changes)."),
		setting("tokensFile", field.Literal{To: &a.TokensFile},
			`A file with lines "NAME TOKEN [read|operate|admin]", by default admin. Needed off loopback.`,
			"Lines `NAME TOKEN [read\\|operate\\|admin]`, by default `admin`; read again when it changes; required "+
				"off loopback. With an empty file no one has a token. Without a file no token is asked for."),
		setting("tls", field.Mapping{Fields: a.TLS.fields(), Type: "serverTLS"}, "",
			"As `server.tls`, without `caFile`."),
	}
}

const aboutTLS = "Certificate and key, PEM files: both or neither."

// TLSSchema is the JSON Schema of a certificate with its key.
func TLSSchema() string { return new(TLS).fields().Schema(aboutTLS) }

func (t *TLS) fields() field.List {
	return field.List{
		setting("certFile", field.Literal{To: &t.CertFile}, "", "PEM file of the certificate."),
		setting("keyFile", field.Literal{To: &t.KeyFile}, "", "PEM file of its key."),
	}
}

// GroupFieldsOf lists the fields of a group. What is printed of those that are read elsewhere is given by their names.
func GroupFieldsOf(g *Group, shown decode.Fields) field.List {
	elsewhere := func(name string, members ...string) field.Elsewhere {
		of := field.Elsewhere{Members: members}
		for _, f := range shown {
			if f.Name == name {
				of.Shows = f.Value
			}
		}
		return of
	}
	return field.List{
		setting("name", field.Elsewhere{Members: []string{field.Ref("dnsName")}, Shows: g.Name},
			"A group named in two files is joined; its cap, instances and defaults stand in one of them.",
			"Name of the group. Default: required."),
		setting("cap", field.Optional{To: &g.Cap, Type: "count"},
			"Most tasks one instance owns in this group. Left out: no cap.",
			"The most tasks of the group that this instance owns; 0 means none at all. Replicas may have different "+
				"caps."),
		{
			Name: "instances", Off: len(g.Selector) == 0, Doc: "Who may own tasks of this group. Left out: all.",
			Value: field.Mapping{Sorted: true, Fields: field.List{
				setting("selector", field.Labels{To: &g.Selector}, "Labels that an instance must have.",
					"Labels that an instance must have to own any of them. Default: all."),
			}},
		},
		setting("defaults", elsewhere("defaults",
			`"type": "object"`, `"additionalProperties": false`, `"patternProperties": {"^x-": true}`,
			"\"properties\": {\n  \"(task)\": \"references\"\n}",
		), "Any field of a task but its name. The task's own wins, maps merge, lists replace; what does not go with a "+
			"task's kind is left out for it.",
			"Any field of a task but its name. The task's own value wins, maps merge, lists replace. Fields that do "+
				"not fit a task's kind are ignored for it."),
		{
			Name: "weightFrom", Off: !g.WeightFrom.Measured(),
			Value: field.Literal{To: (*string)(&g.WeightFrom), Default: string(WeightDeclared), Type: "weightFrom"},
			Doc: "What the weights of the group's tasks come from. lag: a subscription that is far behind weighs up " +
				"to eight times what its weight says, so that its replica gets fewer others. reported: the load that " +
				"functions and the application report. cpu: the processor time that commands of exec use.",
			Page: "What the weights of its tasks come from: `declared`, `lag`, `reported` or `cpu`. See " +
				"[load](load.md). An error in a group in which nothing is measured: `lag` needs a subscription, " +
				"`reported` a task with `callback` or `assign`, and `cpu` one with `exec`.",
		},
		setting("tasks", elsewhere("tasks", `"type": "array"`, `"items": {`+field.Ref("task")+"}"), "",
			"At most 100,000 names a group."),
		{
			Name: "slots", Value: field.Number{To: &g.Slots, Min: 1, Type: "limit"}, Off: g.Slots == 0,
			Doc: "Makes this many tasks of template, slot-000 and so on, beside tasks: each stands for all keys that " +
				"have this slot. With another number nearly all keys change their slot.",
			Page: "How many [slots](#slots) the group has, 1 to 100,000. Not together with `discover`.",
		},
		setting("discover", elsewhere("discover", field.Ref("discover")), "Makes tasks from what exists, beside "+
			"tasks: one field says who is asked, template what runs for each that is found.",
			"Makes tasks from what exists: a lister, as `http` or `kafka`, `interval`, `grace`, `limit`. See "+
				"[discovery](discovery.md)."),
		setting("template", elsewhere("template", field.Ref("template")), "A task without a name, for each slot, or "+
			"for each that discover finds. $(DISCOVERED_NAME) and $(DISCOVERED_PARTITION) stand for what is found, "+
			"$(SHARDCTL_TASK) for the task's name, $(SHARDCTL_INDEX) for the number of a slot. defaults count for it.",
			"What runs for each slot, or for each that is discovered: a task without a name. Required with either."),
	}
}

var anyOfGroupShown = GroupFieldsOf(&Group{}, nil).AnyShown()

// Declared returns the fields of the group that are shown, by name, as a configuration has them; nil where there are
// none.
func (g *Group) Declared() map[string]string {
	if !anyOfGroupShown {
		return nil
	}
	return GroupFieldsOf(g, nil).Shown()
}

// Fields lists the fields of a group's discover, beside those that say who is asked.
func (d *Discover) Fields() field.List {
	return field.List{
		setting("interval", field.Duration{To: &d.Interval, Default: DefaultInterval, Zero: true},
			"How often the one replica that looks asks again."),
		setting("grace", field.Duration{To: &d.Grace, Default: DefaultGrace, Zero: true},
			"How long what has vanished stays before its task is drained. 0s: not at all."),
		setting("limit", field.Number{To: &d.Limit, Default: DefaultLimit, Min: 1, Type: "limit"},
			"Most tasks that are made. What is beyond is left out, and reported."),
	}
}
