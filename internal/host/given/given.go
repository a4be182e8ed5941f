// Package given grants stored secrets to extensions, destinations and policies: it resolves references to secrets
// at each start of a process and each connection.
package given

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// Store has the values of secrets. It is safe for concurrent use.
type Store = interface {
	Lookup(ctx context.Context, name string) (string, error)
	Check(name string) error
}

// references are the secrets that one unit refers to.
type references struct {
	store Store
	keys  map[string]string // by secret name: the key that refers to it
	env   map[string]bool   // NAME=value variables with references
}

// Stated are texts that may refer to secrets, by the configuration key that states them.
type Stated map[string]string

// OfEntry returns the variables that the operator states for extension id, in the entries of the extension and of its
// owner.
func OfEntry(cfg *config.Config, id string) Stated {
	s := Stated{}
	owner, _ := manifest.OwnerOf(id)
	for _, id := range []string{owner, id} {
		path, e := strict.Join("extensions.entries", id), cfg.Extensions.Entries[id]
		for name, text := range e.FileEnv {
			s[path+".env_file ("+name+")"] = text
		}
		for name, text := range e.Env {
			s[path+".env."+name] = text
		}
	}
	return s
}

// Asked returns the names of the secrets that c gets although no file of the operator says so: those that the
// manifest or a project's file asks for. If c was found through the working directory, the operator's entries count
// too: they may mean another extension of that id.
func Asked(cfg *config.Config, c *discovery.Candidate) (names []string) {
	// Give reports the errors that are ignored here
	of, _ := OfTransport("", &c.Manifest.Transport, cfg.Extensions.Environ(c.ID)).Names()
	if cfg.Project.SearchPaths {
		all, _ := OfEntry(cfg, c.ID).Names()
		maps.Copy(of, all)
	}
	owner, _ := manifest.OwnerOf(c.ID)
	for _, use := range cfg.SecretUses {
		for _, id := range []string{owner, c.ID} {
			if use.Project && strings.HasPrefix(use.Key, strict.Join("extensions.entries", id)+".") {
				of[use.Name] = use.Key
			}
		}
	}
	return slices.Sorted(maps.Keys(of))
}

// OfTransport returns the texts of a transport, with path before each key. It omits environment variables that over
// replaces.
func OfTransport(path string, t *manifest.Transport, over map[string]string) Stated {
	s, env, headers := Stated{path + "url": t.URL}, t.Env, t.Headers
	if t.Literal { // nothing else of it refers to anything
		s, env, headers = Stated{}, t.Secrets.Env, t.Secrets.Headers
		path = "secrets."
	}
	for name, text := range env {
		if _, replaced := over[name]; !replaced {
			s[path+"env."+name] = text
		}
	}
	for name, text := range headers {
		s[path+"headers."+name] = text
	}
	if t.OAuth != nil {
		s[path+"oauth.client_secret"] = t.OAuth.ClientSecret
	}
	return s
}

// With adds the texts of other to s.
func (s Stated) With(other Stated) Stated {
	maps.Copy(s, other)
	return s
}

// Names returns the secret names that s refers to, each with the first key that refers to it. The error names the key
// of an invalid reference.
func (s Stated) Names() (map[string]string, error) {
	keys := make(map[string]string)
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(s)) {
		names, err := secrets.Names(s[key])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		for _, name := range names {
			if keys[name] == "" {
				keys[name] = key
			}
		}
	}
	return keys, errors.Join(errs...)
}

// Give lets spec refer to the secrets that s names, and to no others. variables are the names in spec.Env that s
// states: references in other variables stay as they are. The error is for an unusable reference, or for a secret
// that is known to be missing.
func Give(spec *runtime.Spec, store Store, s Stated, variables ...string) error {
	keys, err := s.Names()
	if err == nil {
		err = visible(&spec.Manifest.Transport)
	}
	if err != nil || len(keys) == 0 {
		return err
	}
	g := &references{store: store, keys: keys, env: make(map[string]bool)}
	for _, kv := range spec.Env {
		if name, text, _ := strings.Cut(kv, "="); secrets.Refers(text) && slices.Contains(variables, name) {
			g.env[kv] = true
		}
	}
	spec.Resolve, spec.Stored = g.resolve, slices.Sorted(maps.Keys(keys))
	return g.missing()
}

// visible refuses secrets in a command line, which every user of the machine and every child can read.
func visible(t *manifest.Transport) error {
	if t.URL != "" || t.Literal {
		return nil
	}
	for _, word := range append(slices.Clip(t.CommandLine()), t.Cwd) {
		if secrets.Refers(word) {
			return &secrets.Error{
				Message: "its command line refers to a secret, which others on this machine could read there",
				Next:    "have the program read it from a variable of its environment",
			}
		}
	}
	return nil
}

// missing returns the secrets that are known to be missing, with the keys that refer to them.
func (g *references) missing() error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(g.keys)) {
		if err := g.check(name); err != nil {
			lines = append(lines, protocol.Reason(g.refuse(name, err)))
		}
	}
	if lines == nil {
		return nil
	}
	return protocol.Errorf(protocol.RequirementMissing, "%s", strings.Join(lines, "\n"))
}

// errNoStore is the error of a host without a store.
var errNoStore = &secrets.Error{
	Message: "this program has no store of secrets",
	Next:    "set Secrets of its exthost.Options",
}

func (g *references) check(name string) error {
	if g.store == nil {
		return errNoStore
	}
	return g.store.Check(name)
}

// refuse returns err with the key that refers to the unavailable secret.
func (g *references) refuse(name string, err error) error {
	refused := protocol.Errorf(protocol.RequirementMissing, "%s: %w", g.keys[name], err)
	if e, ok := errors.AsType[*secrets.Error](err); ok {
		refused.Next = e.Next
	}
	return refused
}

// resolve returns s with references replaced by values, and passes the values to s.Secret.
func (g *references) resolve(ctx context.Context, s *runtime.Spec) (*runtime.Spec, error) {
	r := &run{references: g, ctx: ctx, values: make(map[string]string), learn: s.Secret}
	out, m := *s, *s.Manifest
	out.Manifest, out.Env = &m, slices.Clone(s.Env)
	out.Credentials = g.credentials(s)
	for i, kv := range out.Env {
		if g.env[kv] {
			name, text, _ := strings.Cut(kv, "=")
			out.Env[i] = name + "=" + r.replace(text, "")
		}
	}
	t := &m.Transport
	if t.Literal {
		t.Headers = withSecrets(t)
		for name, text := range t.Secrets.Headers {
			t.Headers[name] = r.replace(text, "\r\n")
		}
		return &out, r.err
	}
	t.Headers = maps.Clone(t.Headers)
	for name, text := range t.Headers {
		t.Headers[name] = r.replace(text, "\r\n")
	}
	t.URL = r.replace(t.URL, "\r\n")
	return &out, r.err
}

// credentials returns the names of the secrets that requests to the remote server of s have: in headers, in the URL,
// and in the variable of its token.
func (g *references) credentials(s *runtime.Spec) []string {
	t := s.Manifest.Transport
	t.OAuth = nil // its secret is for another server
	stated := OfTransport("", &t, nil)
	for _, kv := range s.Env {
		if name, text, _ := strings.Cut(kv, "="); name == t.TokenEnv && g.env[kv] {
			stated["token_env"] = text
		}
	}
	names, _ := stated.Names() // invalid references were refused before
	return slices.Sorted(maps.Keys(names))
}

// withSecrets returns the headers of t without those that the secrets of t replace, in whatever case.
func withSecrets(t *manifest.Transport) map[string]string {
	headers := make(map[string]string, len(t.Headers)+len(t.Secrets.Headers))
	for name, text := range t.Headers {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(t.Secrets.Headers)), func(other string) bool {
			return strings.EqualFold(name, other)
		}) {
			headers[name] = text
		}
	}
	return headers
}

// run is one call of resolve, which looks up each secret once.
type run struct {
	*references
	ctx    context.Context
	values map[string]string
	learn  func(string)
	err    error // the first error
}

// replace returns text with references replaced by values. A value must not contain any character of not.
func (r *run) replace(text, not string) string {
	out, err := secrets.Replace(text, func(name string) (string, error) {
		value, err := r.value(name)
		if err == nil && strings.ContainsAny(value, not) {
			err = r.refuse(name,
				fmt.Errorf("the secret %s has several lines, which no header and no address can have", name))
		}
		return value, err
	})
	if r.err == nil {
		r.err = err
	}
	return out
}

func (r *run) value(name string) (string, error) {
	if value, ok := r.values[name]; ok {
		return value, nil
	}
	switch {
	case r.err != nil:
		return "", r.err
	case r.keys[name] == "": // a variable of the host refers to it
		return "", protocol.Errorf(protocol.RequirementMissing,
			"the secret %s is referred to by what does not state it", name)
	case r.store == nil:
		return "", r.refuse(name, errNoStore)
	}
	value, err := r.store.Lookup(r.ctx, name)
	if err != nil {
		return "", r.refuse(name, err)
	}
	if r.learn != nil {
		r.learn(value)
	}
	r.values[name] = value
	return value, nil
}
