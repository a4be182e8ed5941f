package clientconfig

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/local/clientsettings"
	"github.com/exthost/exthost/internal/supply/launcher"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/manifest"
)

// reader is the state of one call of Read.
type reader struct {
	Options
	path   string
	result *Result
	used   map[string]bool // ids in use
	masker masker
	inputs map[string]input // editor inputs by id
}

func (r *reader) note(name, format string, args ...any) {
	r.result.Notes = append(r.result.Notes, Note{Server: name, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) drop(name, format string, args ...any) {
	r.result.Notes = append(r.result.Notes, Note{Server: name, Dropped: true, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) server(name string, raw map[string]any) {
	f := &fields{set: maps.Clone(raw)}
	s := Server{
		Name:    name,
		Runtime: f.runtime(),
		Command: strings.TrimSpace(f.text("command")),
		Args:    f.list("args"),
		Env:     f.texts("env"),
		EnvFile: f.text("envFile"),
		Cwd:     f.text("cwd"),
	}
	failed := r.transport(&s, f)
	r.headers(&s, f)
	r.login(&s, f)
	r.limits(&s, f)
	if f.wrong != "" {
		r.drop(name, "%s", f.wrong)
		return
	}
	if failed != "" {
		r.drop(name, "%s", failed)
		return
	}
	if err := r.translate(&s); err != "" {
		r.drop(name, "%s", err)
		return
	}
	if at := s.refers(); at != "" && r.Bridge {
		r.drop(name, "%s refers to a stored secret, and a destination is given what it refers to; write it by hand "+
			"if its server may have the secret", at)
		return
	}
	r.ownVariables(&s)
	if _, ours := clientsettings.Serves(append([]string{s.Command}, s.Args...)); ours {
		r.drop(name, "it connects the client to exthost, which would run itself")
		return
	}
	if s.Kind == manifest.KindStdio {
		r.resolvePaths(&s)
	}
	if r.Bridge {
		s.withOwn()
	}
	r.masker.maskSecrets(&s)
	s.leaveToProgram()
	for _, key := range slices.Sorted(maps.Keys(f.set)) {
		r.note(name, "%s", leftOut(key, fieldCounterparts[key]))
	}
	if s.ID = r.id(name); s.ID != name {
		r.note(name, "is called %s here, where ids are in lower case and some are taken", r.idOf(&s))
	}
	r.noteUnsupported(&s)
	r.result.Servers = append(r.result.Servers, s)
}

// noteUnsupported notes settings that the target, extension or destination, does not support.
func (r *reader) noteUnsupported(s *Server) {
	switch {
	case !r.Bridge && s.EnvFile != "":
		r.note(s.Name, "envFile is left out: an extension is given what requires.env names; a destination has "+
			"secrets_file")
	case len(s.Tools) > 0 && r.hasAllTools(s):
		r.note(s.Name, "the choice of tools is left out, and all are there; the policy access denies tools")
		s.Tools = nil
	}
	if run, _ := launcher.Parse(append([]string{s.Command}, s.Args...)); run.Unpinned != "" && !r.Lock {
		r.note(s.Name, "%s has no version, so each start may run another one; write %s@VERSION%s", run.Unpinned,
			strings.TrimSuffix(run.Unpinned, "@latest"), map[bool]string{false: ", or import it with --lock"}[r.Bridge])
	}
	r.noteExamples(s)
	if s.URL != "" && len(s.Headers) == 0 && !strings.Contains(s.URL, "${") {
		r.note(s.Name, "no credentials are stated for it; if it wants a login: exthost secret login %s", r.idOf(s))
	}
	if r.Bridge && len(s.Runtime) > 0 {
		r.note(s.Name, "%s have no counterpart in a destination, and are left out",
			strings.Join(slices.Sorted(maps.Keys(s.Runtime)), ", "))
		s.Runtime = nil
	}
	if r.Bridge && s.CallTimeout > 0 {
		r.note(s.Name, "the time limit of calls is left out: destinations have that of "+
			"extensions.defaults.call_timeout")
	}
}

// hasAllTools reports whether the target cannot choose the tools of a server.
func (r *reader) hasAllTools(s *Server) bool { return r.Bridge || r.Plugin != "" || s.asServer() }

// noteExamples notes an image without a tag and the paths of examples.
func (r *reader) noteExamples(s *Server) {
	if image := launcher.Untagged(append([]string{s.Command}, s.Args...)); image != "" {
		image = strings.TrimSuffix(image, ":latest")
		r.note(s.Name, "the image %s has no tag, so another one may run after the next pull; write %s:TAG or "+
			"%s@sha256:DIGEST", image, image, image)
	}
	s.eachValue(func(where, value string) string {
		if pathPlaceholder.MatchString(value) && !isURL.MatchString(value) {
			r.note(s.Name, "%s: %s is the path of an example; write the one on this machine", where, value)
		}
		return value
	})
}

// fieldCounterparts says what takes the place of fields of a server that are not imported.
var fieldCounterparts = map[string]string{
	"headersHelper":  "give the headers themselves",
	"sandbox":        "runtime.isolate and [runtime.limits] bound a process",
	"sandboxEnabled": "runtime.isolate and [runtime.limits] bound a process",
	"trust":          "the policy approval asks before calls",
	"alwaysAllow":    "the policy approval asks before calls",
	"autoApprove":    "the policy approval asks before calls",
	"tools":          "the policy approval asks before calls of single tools",
	"required":       "serve --strict refuses to start without",
	"excludeTools":   "the policy access denies tools",
	"disabled_tools": "the policy access denies tools",
	"disabledTools":  "the policy access denies tools",
	"watchPaths":     "exthost serve --watch restarts what changes",
	"alwaysLoad":     "activation says when an extension starts",
	"dev":            "exthost serve --watch restarts what changes",
}

// leftOut formats the note about a key that is not imported. instead is the alternative, or "".
func leftOut(key, instead string) string {
	if instead == "" {
		return key + " has no counterpart here, and is left out"
	}
	return key + " is left out; " + instead
}

// transport sets the transport. It returns why the server cannot be used, or "".
func (r *reader) transport(s *Server, f *fields) string {
	s.Kind, s.URL = r.kind(s.Name, f)
	switch {
	case s.Kind != manifest.KindStdio && s.Kind != manifest.KindHTTP && s.Kind != manifest.KindSSE:
		return fmt.Sprintf("type %s is not known here; there is stdio, http and sse", s.Kind)
	case s.Kind == manifest.KindStdio && s.Command == "":
		return "it has neither a command nor a url"
	case s.Kind == manifest.KindStdio:
		s.URL = ""
		return ""
	}
	if u, err := url.Parse(s.URL); err != nil ||
		!strings.Contains(s.URL, "$") && u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Sprintf("%q is not an http or https address", s.URL)
	}
	s.Command, s.Args = "", nil
	if len(s.Env) > 0 {
		r.note(s.Name, "env has no effect on a server elsewhere, and is left out")
		s.Env = nil
	}
	return ""
}

// kind returns the transport kind and the URL of a server.
func (r *reader) kind(name string, f *fields) (kind, address string) {
	kind, web, httpURL := f.text("type", "transport", "transportType"), f.text("url", "serverUrl"), f.text("httpUrl")
	switch {
	case httpURL != "":
		return manifest.KindHTTP, httpURL
	case web != "" && kind == "":
		return r.impliedKind(name, web), web
	}
	switch kind = strings.ToLower(kind); kind {
	case "":
		kind = manifest.KindStdio
	case "streamable-http", "streamable_http", "streamablehttp":
		kind = manifest.KindHTTP
	}
	return kind, web
}

// impliedKind returns the transport kind of a server with a URL and no type.
func (r *reader) impliedKind(name, web string) string {
	switch r.result.Client {
	case Gemini:
		return manifest.KindSSE
	case Codex:
		return manifest.KindHTTP
	}
	kind := guessKind(web)
	r.note(name, "its type is not stated; %s is a guess by its url", kind)
	return kind
}

func guessKind(web string) string {
	if u, err := url.Parse(web); err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		return manifest.KindSSE
	}
	return manifest.KindHTTP
}

func (r *reader) headers(s *Server, f *fields) {
	s.Headers = f.texts("headers")
	maps.Copy(s.Headers, f.texts("http_headers"))
	for header, variable := range f.texts("env_http_headers") {
		s.Headers[header] = "${" + variable + "}"
	}
	if variable := f.text("bearer_token_env_var"); variable != "" {
		s.Headers["Authorization"] = "Bearer ${" + variable + "}"
	}
	if f.text("bearer_token") != "" {
		r.note(s.Name, "bearer_token is left out, as Codex itself refuses it; name a variable with "+
			"bearer_token_env_var")
	}
}

// limits reads timeouts, tool filters and enabled flags.
func (r *reader) limits(s *Server, f *fields) {
	s.StartTimeout = f.duration("startup_timeout_sec", time.Second) + f.duration("startup_timeout_ms", time.Millisecond)
	s.CallTimeout = f.duration("tool_timeout_sec", time.Second) + r.timeout(s.Name, f)
	s.Pass = f.list("env_vars")
	s.Tools = append(f.list("enabled_tools"), f.list("includeTools")...)
	disabled, _ := f.flag("disabled")
	enabled, stated := f.flag("enabled")
	if s.Disabled = disabled || stated && !enabled; s.Disabled {
		r.note(s.Name, "is switched off there, and stays so here")
	}
}

// timeout reads the field timeout, which is in seconds for Cline and Roo Code and in milliseconds for all others.
func (r *reader) timeout(name string, f *fields) time.Duration {
	if r.result.Client == Cline {
		return f.duration("timeout", time.Second)
	}
	d := f.duration("timeout", time.Millisecond)
	if d > 0 && d < time.Second && r.From == "" && r.result.Client == ClaudeCode {
		// a file of unknown origin, and no server answers within such a time
		d *= 1000
		r.note(name, "timeout is taken as %v, because %v would be too short for any call; --from says whose file it is",
			d, d/1000)
	}
	return d
}

// resolvePaths makes cwd and command absolute where they are relative to the project.
func (r *reader) resolvePaths(s *Server) {
	if words, ok := text.WholeLine(s.Command, s.Args); ok {
		r.note(s.Name, "its command is a whole line, and is split into words")
		s.Command, s.Args = words[0], words[1:]
	}
	s.Cwd = cmp.Or(s.Cwd, r.Workspace)
	switch relative := s.Cwd != "" && !filepath.IsAbs(s.Cwd) && !strings.HasPrefix(s.Cwd, "$"); {
	case relative && r.Workspace != "":
		s.Cwd = filepath.Join(r.Workspace, s.Cwd)
	case relative && r.Plugin == "":
		r.note(s.Name, "cwd %s is relative to where the client was started: write it in full", s.Cwd)
	}
	inPlace := filepath.IsAbs(s.Command) || strings.HasPrefix(s.Command, "$") || strings.HasPrefix(s.Command, "~/")
	if strings.ContainsAny(s.Command, `/\`) && !inPlace && s.Cwd != "" {
		s.Command = filepath.Join(s.Cwd, s.Command)
	}
}

// idOf returns the id of the extension that s becomes.
func (r *reader) idOf(s *Server) string {
	if r.Plugin == "" || r.Plugin == s.ID {
		return s.ID
	}
	return manifest.ServerID(r.Plugin, s.ID)
}

// id derives a unique id from a name.
func (r *reader) id(name string) string {
	id := text.Slug(name, "mcp")
	id = id[:min(len(id), manifest.MaxIDLength-8)]
	if r.Plugin == "" && slices.Contains(manifest.ReservedIDs(), id) {
		id += "-server"
	}
	free := id
	for n := 2; r.used[free]; n++ {
		free = fmt.Sprintf("%s-%d", id, n)
	}
	r.used[free] = true
	return free
}
