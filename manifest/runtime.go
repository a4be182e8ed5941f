package manifest

import (
	"cmp"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Runtime is a [runtime] table as one file states it. A nil or empty field is not stated; [Runtime.Resolve] has
// the defaults.
type Runtime struct {
	// default eager; lazy for lite and exec
	Activation string `toml:"activation" json:"activation,omitempty"`
	// shared, per_session, or the number of instances that callers share; default shared
	Instances    Instances `toml:"instances" json:"instances,omitempty"`
	MaxInstances *int      `toml:"max_instances" json:"max_instances,omitempty"` // of one extension; default 16
	// time for the handshake; default 10 s, 60 s for MCP servers that are processes, 120 s for npx, uvx and the
	// like
	StartTimeout *Duration `toml:"start_timeout" json:"start_timeout,omitempty"`
	CallTimeout  *Duration `toml:"call_timeout" json:"call_timeout,omitempty"` // default 30 s; 0 is no limit
	// limit even if progress is reported; default 10 min
	MaxCallTimeout *Duration `toml:"max_call_timeout" json:"max_call_timeout,omitempty"`
	// stop an idle child after this; default 0, never
	IdleTimeout *Duration `toml:"idle_timeout" json:"idle_timeout,omitempty"`
	// time between closing stdin and SIGTERM; default 3 s
	ShutdownGrace *Duration `toml:"shutdown_grace" json:"shutdown_grace,omitempty"`
	// time between SIGTERM and SIGKILL; default 1 s
	KillGrace *Duration `toml:"kill_grace" json:"kill_grace,omitempty"`
	// time for calls in flight on reload; default 30 s, 0 is none
	DrainTimeout *Duration `toml:"drain_timeout" json:"drain_timeout,omitempty"`
	// calls on one instance; default 64, always 1 for lite
	MaxInFlight *int `toml:"max_in_flight" json:"max_in_flight,omitempty"`
	// calls waiting for one instance; default 256
	MaxQueue     *int  `toml:"max_queue" json:"max_queue,omitempty"`
	MaxLineBytes *Size `toml:"max_line_bytes" json:"max_line_bytes,omitempty"` // default 16 MiB
	// interval of pings, 100 ms or more; default 0, none
	HealthInterval *Duration `toml:"health_interval" json:"health_interval,omitempty"`
	// ping the child after each call that times out; default false
	RecycleOnHang *bool `toml:"recycle_on_hang" json:"recycle_on_hang,omitempty"`
	// never (default) or idempotent; only the operator may state it
	Replay string `toml:"replay" json:"replay,omitempty"`
	// overlap (default) or stop_first
	Reload string `toml:"reload" json:"reload,omitempty"`
	// none (default) or pid: a pid namespace of its own (Linux), which its processes cannot leave; only the
	// operator may state none
	Isolate string  `toml:"isolate" json:"isolate,omitempty"`
	Restart Restart `toml:"restart" json:"restart,omitzero"`
	Limits  Limits  `toml:"limits" json:"limits,omitzero"`
}

// Restart is the [runtime.restart] table.
type Restart struct {
	// restarts within window; default 5, with a url -1; 0 is never, -1 unlimited
	MaxAttempts *int      `toml:"max_attempts" json:"max_attempts,omitempty"`
	Window      *Duration `toml:"window" json:"window,omitempty"` // sliding; default 5 min
	// delay of a restart, doubled by every attempt, and up to a fifth longer; the first is at once; default 1 s, 0 is
	// no delay
	BaseBackoff *Duration `toml:"base_backoff" json:"base_backoff,omitempty"`
	MaxBackoff  *Duration `toml:"max_backoff" json:"max_backoff,omitempty"` // default 16 s
	// time in state ready that resets the backoff; default 60 s
	HealthyAfter *Duration `toml:"healthy_after" json:"healthy_after,omitempty"`
}

// Limits is the [runtime.limits] table. Everything else is unlimited, except for processes in a sandbox.
type Limits struct {
	// processes and threads at a time, descendants included; implies isolate = "pid", needs Linux 6.14; default
	// 2048 in a sandbox
	Processes *int      `toml:"processes" json:"processes,omitempty"`
	Memory    *Size     `toml:"memory" json:"memory,omitempty"`         // data segment of one process
	CPUTime   *Duration `toml:"cpu_time" json:"cpu_time,omitempty"`     // of one process
	OpenFiles *int      `toml:"open_files" json:"open_files,omitempty"` // descriptors of one process
	FileSize  *Size     `toml:"file_size" json:"file_size,omitempty"`   // largest file it may write
}

// Over returns r laid over base, field by field.
func (r Runtime) Over(base Runtime) Runtime {
	overlay(reflect.ValueOf(&base).Elem(), reflect.ValueOf(r))
	return base
}

func overlay(base, top reflect.Value) {
	for i := range top.NumField() {
		switch f := top.Field(i); {
		case f.Kind() == reflect.Struct:
			overlay(base.Field(i), f)
		case !f.IsZero():
			base.Field(i).Set(f)
		}
	}
}

// The values of Options.Activation, Replay, Reload and Isolate.
const (
	ActivationEager  = "eager"      // start with the host
	ActivationLazy   = "lazy"       // start on the first call
	ReplayNever      = "never"      // a call is sent once
	ReplayIdempotent = "idempotent" // sent again if the tool is idempotent and the child died
	ReloadOverlap    = "overlap"    // the new build is ready before the old one drains
	ReloadStopFirst  = "stop_first" // the old build stops before the new one starts
	IsolateNone      = "none"       // children share the host's process ids
	IsolatePID       = "pid"        // each child gets a pid namespace of its own, where the system supports it
)

// Options is a [runtime] table with all defaults filled in.
type Options struct {
	Activation string // eager; lazy for lite and exec
	// shared: one for all; per_session: one for each session; or the number of children that share the callers
	Instances    Instances
	MaxInstances int // 16 children of one extension; further callers get overloaded
	// 10 s until the handshake ends; 60 s for MCP servers that are processes; 120 s for npx, uvx and the like, which
	// download first
	StartTimeout   time.Duration
	CallTimeout    time.Duration // 30 s from the written frame; 0 is no limit
	MaxCallTimeout time.Duration // 10 min however much progress is reported, never below CallTimeout; 0 is no limit
	IdleTimeout    time.Duration // 0: a child is never stopped for idling
	ShutdownGrace  time.Duration // 3 s between closing stdin and SIGTERM; CallTimeout for lite
	KillGrace      time.Duration // 1 s between SIGTERM and SIGKILL; 5 s for destinations
	DrainTimeout   time.Duration // 30 s for calls in flight on reload
	MaxInFlight    int           // 64 calls on one instance; always 1 for lite
	MaxQueue       int           // 256 calls waiting for one instance
	MaxLineBytes   int           // 16 MiB
	HealthInterval time.Duration // 0: no pings; else 100 ms or more
	// ping the child after each call that times out; false: after five calls in a row without an answer
	RecycleOnHang bool
	Replay        string         // never
	Reload        string         // overlap
	Isolate       string         // none
	Restart       RestartOptions // when a child dies
	Limits        LimitOptions   // of the child's process
}

// RestartOptions bound the restarts of a child that dies.
type RestartOptions struct {
	MaxAttempts int           // within Window; 0 is never, -1 unlimited
	Window      time.Duration // 5 min, sliding
	// 1 s, doubled by every attempt, and up to a fifth longer: restarts come at once and after 2, 4, 8 and 16 s; 0 is
	// no delay
	BaseBackoff  time.Duration
	MaxBackoff   time.Duration // 16 s, and up to a fifth longer
	HealthyAfter time.Duration // 60 s in state ready reset the backoff
}

// LimitOptions bound one process, except for Processes. Zero is unlimited.
type LimitOptions struct {
	Processes int   // of all processes together
	Memory    int64 // bytes
	CPUTime   time.Duration
	OpenFiles int
	FileSize  int64 // bytes
}

// Resolve fills in the defaults of r, some of which depend on t.
func (r Runtime) Resolve(t Transport) Options {
	lite := t.Kind == KindStdio && t.Protocol == ProtocolLite
	activation := ActivationEager
	if lite || t.Kind == KindExec {
		activation = ActivationLazy
	}
	start := 10 * time.Second
	if t.Downloads() {
		start = 120 * time.Second
		// servers in Python and Node load slowly on a busy machine
	} else if t.Kind == KindStdio && t.Protocol == ProtocolMCP {
		start = 60 * time.Second
	}
	call := durationOr(r.CallTimeout, 30*time.Second)
	grace := 3 * time.Second
	if lite {
		grace = call
	}
	attempts := 5
	if IsRemote(t.Kind) {
		attempts = -1 // reconnecting costs nothing, and a remote server comes back
	}
	o := Options{
		Activation:     cmp.Or(r.Activation, activation),
		Instances:      cmp.Or(r.Instances, InstancesShared),
		MaxInstances:   valueOr(r.MaxInstances, 16),
		StartTimeout:   durationOr(r.StartTimeout, start),
		CallTimeout:    call,
		MaxCallTimeout: durationOr(r.MaxCallTimeout, max(10*time.Minute, call)),
		IdleTimeout:    durationOr(r.IdleTimeout, 0),
		ShutdownGrace:  durationOr(r.ShutdownGrace, grace),
		KillGrace:      durationOr(r.KillGrace, time.Second),
		DrainTimeout:   durationOr(r.DrainTimeout, 30*time.Second),
		MaxInFlight:    valueOr(r.MaxInFlight, 64),
		MaxQueue:       valueOr(r.MaxQueue, 256),
		MaxLineBytes:   int(valueOr(r.MaxLineBytes, 16<<20)),
		HealthInterval: durationOr(r.HealthInterval, 0),
		RecycleOnHang:  valueOr(r.RecycleOnHang, false),
		Replay:         cmp.Or(r.Replay, ReplayNever),
		Reload:         cmp.Or(r.Reload, ReloadOverlap),
		Isolate:        cmp.Or(r.Isolate, IsolateNone),
		Restart:        r.Restart.resolve(attempts),
		Limits:         r.Limits.resolve(),
	}
	if o.Limits.Processes > 0 {
		o.Isolate = IsolatePID
	}
	if o.MaxCallTimeout > 0 {
		o.MaxCallTimeout = max(o.MaxCallTimeout, call)
	}
	if lite {
		o.MaxInFlight = 1
	}
	return o
}

// IsRemote reports whether a transport of that kind connects to a running server, so that the host starts no
// process.
func IsRemote(kind string) bool { return kind == KindHTTP || kind == KindSSE || kind == KindNATS }

func (r Restart) resolve(attempts int) RestartOptions {
	return RestartOptions{
		MaxAttempts:  valueOr(r.MaxAttempts, attempts),
		Window:       durationOr(r.Window, 5*time.Minute),
		BaseBackoff:  durationOr(r.BaseBackoff, time.Second),
		MaxBackoff:   durationOr(r.MaxBackoff, 16*time.Second),
		HealthyAfter: durationOr(r.HealthyAfter, 60*time.Second),
	}
}

func (l Limits) resolve() LimitOptions {
	return LimitOptions{
		Processes: valueOr(l.Processes, 0),
		Memory:    int64(valueOr(l.Memory, 0)),
		CPUTime:   durationOr(l.CPUTime, 0),
		OpenFiles: valueOr(l.OpenFiles, 0),
		FileSize:  int64(valueOr(l.FileSize, 0)),
	}
}

// Downloads reports whether the command is a package runner, which may download the program first.
func (t Transport) Downloads() bool {
	command := t.Command
	if command == "" && len(t.Cmd) > 0 {
		command = t.Cmd[0]
	}
	name := path.Base(strings.ReplaceAll(command, `\`, "/"))
	name, _, _ = strings.Cut(strings.ToLower(name), ".") // npx.cmd, uvx.exe
	return slices.Contains([]string{"npx", "bunx", "pnpx", "uvx", "pipx"}, name)
}

func valueOr[T any](p *T, def T) T {
	if p != nil {
		return *p
	}
	return def
}

func durationOr(p *Duration, def time.Duration) time.Duration {
	return valueOr(p, Duration(def)).Std()
}
