package manifest

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/strict"
)

// Problem is an error in a table that several kinds of files contain. The reader of the file adds the position.
type Problem struct {
	Field   string // dotted key within the table: "restart.max_attempts"; "" is the table itself
	Message string
	Hint    string
}

// leastHealthInterval is also the shortest timeout of a ping. A smaller value is mostly a number of seconds
// without its unit.
const leastHealthInterval = 100 * time.Millisecond

type problems []Problem

func (p *problems) add(field, hint, format string, args ...any) {
	*p = append(*p, Problem{Field: field, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// not adds a problem of field with the message wrong, unless wrong is "".
func (p *problems) not(field, wrong string) {
	if wrong != "" {
		p.add(field, "", "%s", wrong)
	}
}

// oneOf checks a word; "" is valid.
func (p *problems) oneOf(field, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		p.add(field, strict.DidYouMean(value, allowed), "%s is %s, not %q", field, either(allowed), value)
	}
}

// atLeast checks a number; nil is valid.
func (p *problems) atLeast(field string, value *int, least int) {
	if value != nil && *value < least {
		p.add(field, "", "%s is at least %d, not %d", field, least, *value)
	}
}

func either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Validate returns all errors in the stated values of r.
func (r Runtime) Validate() []Problem {
	var p problems
	p.oneOf("activation", r.Activation, ActivationEager, ActivationLazy)
	p.oneOf("replay", r.Replay, ReplayNever, ReplayIdempotent)
	p.oneOf("reload", r.Reload, ReloadOverlap, ReloadStopFirst)
	p.oneOf("isolate", r.Isolate, IsolateNone, IsolatePID)
	p.atLeast("max_instances", r.MaxInstances, 1)
	p.atLeast("max_in_flight", r.MaxInFlight, 1)
	p.atLeast("max_queue", r.MaxQueue, 0)
	if b := r.MaxLineBytes; b != nil && (*b < 1<<10 || *b > 1<<30) {
		p.add("max_line_bytes", "", "max_line_bytes is between 1 KiB and 1 GiB, not %d bytes", *b)
	}
	if d := r.StartTimeout; d != nil && *d == 0 {
		p.add("start_timeout", "",
			"start_timeout is more than 0: without it an extension that hangs would never be given up")
	}
	if d := r.HealthInterval; d != nil && *d != 0 && d.Std() < leastHealthInterval {
		p.add("health_interval", "a number without a unit is milliseconds",
			"health_interval (%v) is less than %v, and a ping that takes longer would kill the child", *d,
			leastHealthInterval)
	}
	p.atLeast("restart.max_attempts", r.Restart.MaxAttempts, -1)
	if d := r.Restart.Window; d != nil && *d == 0 {
		p.add("restart.window", "max_attempts = -1 restarts without limit", "restart.window is more than 0")
	}
	if lo, hi := r.Restart.BaseBackoff, r.Restart.MaxBackoff; lo != nil && hi != nil && *lo > *hi {
		p.add("restart.base_backoff", "", "restart.base_backoff (%v) is more than max_backoff (%v)", *lo, *hi)
	}
	p.atLeast("limits.processes", r.Limits.Processes, 8)
	p.atLeast("limits.open_files", r.Limits.OpenFiles, 8)
	return p
}

// Validate returns all errors in the hook.
func (h HookSpec) Validate() []Problem {
	var p problems
	if _, ok := ParseHookEvent(h.Event); !ok {
		p.add("event", strict.DidYouMean(h.Event, eventNames()), "%q is not a hook point", h.Event)
	}
	if len(h.Command) == 0 || strings.TrimSpace(h.Command[0]) == "" {
		p.add("command", "", "a hook needs a command")
	}
	p.oneOf("on_error", h.OnError, "allow", "deny")
	if _, err := glob.ParseMatcher(h.Matcher); err != nil {
		p.add("matcher", "", "matcher is not a regular expression (nor a list of names, nor a pattern): %v", err)
	}
	if h.Timeout != nil && *h.Timeout == 0 {
		p.add("timeout", "", "timeout is more than 0: without it a hook that hangs would hold up every call")
	}
	return p
}

// Validate returns all errors in a server. Call [Server.Complete] first.
func (s Server) Validate() []Problem {
	var p problems
	switch s.Type {
	case KindStdio:
		if strings.TrimSpace(s.Command) == "" {
			p.add("command", "", "a server of type stdio needs a command")
		}
		if words, line := wholeLine(s.Command); line {
			p.add("command", fmt.Sprintf("write command = %q and args = %s", words[0],
				text.LiteralList(append(words[1:], s.Args...))),
				"command is the program alone, and %q is a line: no shell runs it", s.Command)
		}
		if s.URL != "" || len(s.Headers) > 0 {
			p.add("url", "", "url and headers are for type http and sse")
		}
	case KindHTTP, KindSSE:
		if msg := badURL(s.URL); msg != "" {
			p.add("url", "", "%s", msg)
		}
		if s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || s.Cwd != "" {
			p.add("command", "", "command, args, env and cwd are for type stdio")
		}
		p.headers(s.Headers)
	case "":
		p.add("", "", "a server needs a command or a url")
	default:
		p.oneOf("type", s.Type, KindStdio, KindHTTP, KindSSE)
	}
	return p
}

// Complete fills in a missing type and normalizes a stated one. guess explains a type that was derived from the url
// alone; for other types it is "".
func (s Server) Complete() (done Server, guess string) {
	path := ""
	if u, err := url.Parse(s.URL); err == nil {
		path = strings.TrimRight(u.Path, "/")
	}
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s.Type)) {
	case "http", "streamablehttp":
		s.Type = KindHTTP
	case "", "auto":
		s.Type = ""
		switch {
		case s.Command != "":
			s.Type = KindStdio
		case strings.HasSuffix(path, "/sse"):
			s.Type, guess = KindSSE, "the url ends in /sse, so it is taken for type sse"
		case s.URL != "":
			s.Type, guess = KindHTTP, "no type is stated, so the url is taken for type http"
		}
	}
	return s, guess
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (p *problems) headers(h map[string]string) {
	for name, value := range h {
		switch {
		case !headerName.MatchString(name):
			p.add("headers."+name, "", "%q is not a header's name", name)
		case strings.ContainsAny(value, "\r\n\x00"):
			p.add("headers."+name, "", "the header %s has a line break in its value", name)
		}
	}
}
