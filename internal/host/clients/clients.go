// Package clients holds the named clients of a host, and authenticates their tokens.
package clients

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Directory holds the clients in force. It is safe for concurrent use.
type Directory struct {
	base    context.Context
	reread  func() (*config.Config, error)
	changed func() // called after the clients in force have changed
	log     *slog.Logger
	current atomic.Pointer[table]

	unnamed context.Context // of anonymous callers, see Unnamed
	require context.CancelFunc

	mu       sync.Mutex // guards the fields below
	begun    uint64     // number of readings of the configuration
	applied  uint64     // the latest reading in force
	subjects map[string]*subject
}

// table is an immutable set of clients.
type table struct {
	stated map[string]config.Client
	named  map[string]*client
	keys   []*key
}

type client struct {
	name     string
	ctx      context.Context // ends when the client is removed
	remove   context.CancelFunc
	lastUsed atomic.Pointer[time.Time] // nil: never
}

// key is a token of a client.
type key struct {
	sum    [sha256.Size]byte
	client *client
	ctx    context.Context // ends with the token
	end    context.CancelFunc
	until  time.Time   // zero: without limit
	timer  *time.Timer // ends the token then; nil: without limit
}

// New returns a directory without clients. The contexts that it returns end with ctx. reread reads the configuration
// again; nil: the configuration never changes. changed is called after each change of the clients in force.
func New(ctx context.Context, reread func() (*config.Config, error), changed func(), log *slog.Logger) *Directory {
	d := &Directory{base: ctx, reread: reread, changed: changed, log: log, subjects: make(map[string]*subject)}
	d.unnamed, d.require = context.WithCancel(ctx)
	d.current.Store(&table{})
	return d
}

// Reload applies the clients of the current configuration, and nothing else of it. Removed clients and old tokens are
// refused at once, and their sessions end. So do the sessions of an access token's subject if a client has got the
// subject's name. Reload does not wait for starts. After an error, which is also logged, nothing has changed.
func (d *Directory) Reload() error {
	if d.reread == nil {
		return nil
	}
	reading := d.begin()
	cfg, err := d.reread()
	if err != nil {
		d.log.Error("named clients stay as they were", "error", err)
		return err
	}
	d.set(reading, cfg.Server.Clients)
	return nil
}

// Set replaces all clients, as [Directory.Reload] does.
func (d *Directory) Set(stated map[string]config.Client) { d.set(d.begin(), stated) }

// begin is called before the configuration is read, and returns the number of this reading.
func (d *Directory) begin() (reading uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

// set applies the clients of a reading, unless a later one is in force: a removed client must not come back
// through an earlier reading. Removed tokens end at once, and when the first client appears, all anonymous
// callers end too.
func (d *Directory) set(reading uint64, stated map[string]config.Client) {
	if changed := d.replace(reading, stated); len(changed) > 0 {
		d.log.Info("named clients", "changed", changed)
		d.changed()
	}
}

// replace does the work of set, and returns the names of the added, removed and changed clients.
func (d *Directory) replace(reading uint64, stated map[string]config.Client) (changed []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reading < d.applied {
		return nil
	}
	d.applied, changed = reading, d.Changed(stated)
	before, next := d.current.Load(), &table{stated: maps.Clone(stated), named: make(map[string]*client)}
	for name, c := range stated {
		n := before.named[name]
		was := before.stated[name]
		if n == nil || was.Toolset != c.Toolset || was.Scope != c.Scope { // ends sessions that it no longer may have
			n = &client{name: name}
			n.ctx, n.remove = context.WithCancel(d.base)
		}
		next.named[name] = n
		next.add(before, n, c.TokenHash, "")
		next.add(before, n, c.OldTokenHash, c.OldUntil)
	}
	d.current.Store(next)
	for name := range stated {
		d.endSubject(name)
	}
	if len(stated) > 0 {
		d.require()
	}
	for _, k := range before.keys {
		if !slices.ContainsFunc(next.keys, func(other *key) bool { return other.ctx == k.ctx }) {
			k.end()
		}
		if k.timer != nil {
			k.timer.Stop() // the next table has its own timers
		}
	}
	for name, n := range before.named {
		if next.named[name] != n {
			n.remove()
		}
	}
	return changed
}

// add adds a token, and reuses the context of the same token in before.
func (t *table) add(before *table, c *client, hash, until string) {
	sum, err := clienttoken.ParseHash(hash)
	if err != nil { // hash is "": invalid ones were refused with the configuration
		return
	}
	k := &key{sum: sum, client: c}
	if until != "" {
		if k.until, err = time.Parse(time.RFC3339, until); err != nil || !time.Now().Before(k.until) {
			return
		}
	}
	same := func(old *key) bool { return old.client == c && old.sum == sum && old.holds() }
	if i := slices.IndexFunc(before.keys, same); i >= 0 {
		k.ctx, k.end = before.keys[i].ctx, before.keys[i].end
	} else {
		k.ctx, k.end = context.WithCancel(c.ctx)
	}
	if !k.until.IsZero() {
		k.timer = time.AfterFunc(time.Until(k.until), k.end)
	}
	t.keys = append(t.keys, k)
}

func (k *key) holds() bool {
	return k.ctx.Err() == nil && (k.until.IsZero() || time.Now().Before(k.until))
}

// ByToken returns the client of a token. until ends with the token or the client. The time that it takes depends only
// on the number of tokens, not on which token matches nor on how much of it does.
func (d *Directory) ByToken(token string) (name string, until context.Context, ok bool) {
	sum := sha256.Sum256([]byte(token))
	keys, found := d.current.Load().keys, -1
	for i, k := range keys {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], k.sum[:]), i, found)
	}
	if found < 0 || !keys[found].holds() {
		return "", nil, false
	}
	k, now := keys[found], time.Now()
	k.client.lastUsed.Store(&now)
	return k.client.name, k.ctx, true
}

// Formerly returns the client whose ended old token this is, "" for any other token.
func (d *Directory) Formerly(token string) (name string) {
	hash := clienttoken.Hash(token)
	for name, c := range d.Stated() {
		if c.OldTokenHash == hash {
			return name
		}
	}
	return ""
}

// ByName looks up a client that was authenticated without a token. until ends with the client. A client with a scope is
// not found: it has only what its token opens.
func (d *Directory) ByName(name string) (until context.Context, ok bool) {
	all := d.current.Load()
	c := all.named[name]
	if c == nil || all.stated[name].Scope != "" {
		return nil, false
	}
	now := time.Now()
	c.lastUsed.Store(&now)
	return c.ctx, true
}

// Named reports whether a client has this name.
func (d *Directory) Named(name string) bool { return d.current.Load().named[name] != nil }

// Unnamed reports whether anonymous callers may be served: no client has existed since the host was opened.
// Removing the last client does not admit them again. until ends with the first client.
func (d *Directory) Unnamed() (until context.Context, ok bool) {
	return d.unnamed, d.unnamed.Err() == nil
}

// Toolset returns the toolset of a client, "" for a client without one and for an unknown client.
func (d *Directory) Toolset(name string) string { return d.Stated()[name].Toolset }

// Scope returns the scope of a client, see [config.Client]; "" for a client without one and for an unknown client.
func (d *Directory) Scope(name string) string { return d.Stated()[name].Scope }

// Approves returns the risks of the calls that the client may approve; none for an unknown client.
func (d *Directory) Approves(name string) []protocol.Risk { return d.Stated()[name].Approves }

// Names returns the names of all clients, sorted.
func (d *Directory) Names() []string { return slices.Sorted(maps.Keys(d.current.Load().named)) }

// Stated returns the clients in force as the configuration states them. The map must not be changed.
func (d *Directory) Stated() map[string]config.Client { return d.current.Load().stated }

// Changed returns the names of the clients that differ between stated and the clients in force, sorted.
func (d *Directory) Changed(stated map[string]config.Client) []string {
	now, names := d.Stated(), []string{}
	for name, c := range stated {
		if was, ok := now[name]; !ok || !reflect.DeepEqual(was, c) {
			names = append(names, name)
		}
	}
	for name := range now {
		if _, ok := stated[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Describe returns the status of the clients, by name.
func (d *Directory) Describe() (list []status.NamedClient) {
	for name, c := range d.current.Load().named {
		list = append(list, status.NamedClient{Name: name, LastUsed: c.lastUsed.Load()})
	}
	slices.SortFunc(list, func(a, b status.NamedClient) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// maxSubjects bounds the recorded subjects of access tokens. A server has fewer sessions.
const maxSubjects = 4096

// subject is a caller with an access token.
type subject struct {
	ctx  context.Context
	end  context.CancelFunc
	used time.Time
}

// Subject reports whether the subject of an access token may use this name as a caller: no client has it. until
// ends when a client gets the name, or when many other subjects have come since this one was last seen.
func (d *Directory) Subject(name string) (until context.Context, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Named(name) {
		return nil, false
	}
	s := d.subjects[name]
	if s == nil {
		if len(d.subjects) >= maxSubjects {
			d.dropSubject()
		}
		s = new(subject)
		s.ctx, s.end = context.WithCancel(d.base)
		d.subjects[name] = s
	}
	s.used = time.Now()
	return s.ctx, true
}

// dropSubject ends the subject not seen for longest. The caller holds d.mu.
func (d *Directory) dropSubject() {
	var oldest string
	for name, s := range d.subjects {
		if at := d.subjects[oldest]; at == nil || s.used.Before(at.used) {
			oldest = name
		}
	}
	d.endSubject(oldest)
}

// endSubject ends the sessions of a subject. The caller holds d.mu.
func (d *Directory) endSubject(name string) {
	if s := d.subjects[name]; s != nil {
		s.end()
		delete(d.subjects, name)
	}
}
