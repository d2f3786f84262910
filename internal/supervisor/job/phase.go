package job

// phase is where a job stands.
//
//	begin        start           ended, to be tried again
//	──────▶ idle ─────▶ active ───────────────────────────▶ pausing
//	         ▲            │  ▲                                 │
//	         └────────────┘  └─────────────────────────────────┘
//	          ended, with ticks           its time has come
//
// From each of these it goes to leaving, and then is concluded, when it is asked to stop or has ended for good. A
// change of the task that needs a restart takes the same way, and begins again in place of being concluded.
type phase uint8

const (
	idle    phase = iota // nothing goes on: it waits for a tick, or for nothing
	active               // a run goes on
	pausing              // it waits for the time of the next try
	leaving              // nothing runs, and its runner takes leave
	concluded
)
