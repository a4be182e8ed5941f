// Package clients knows the named clients of a host: whose a token is, and until when that holds.
package clients

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/status"
)

// Directory has the clients that are in force. Its methods may be called by many goroutines at once.
type Directory struct {
	base    context.Context
	reread  func() (*config.Config, error)
	changed func() // is called after the clients in force have changed
	log     *slog.Logger
	current atomic.Pointer[table]

	unnamed context.Context // of callers without a name, see Unnamed
	require context.CancelFunc

	mu       sync.Mutex // guards what follows
	begun    uint64     // readings of the configuration
	applied  uint64     // the latest of these that was set
	subjects map[string]*subject
}

// table is what is in force. It does not change.
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
	until  time.Time   // zero: it stays
	timer  *time.Timer // ends it then; nil: it stays
}

// New returns a directory without clients. What it hands out ends with ctx. reread reads the
// configuration again; nil: it stays as it is. changed is called after each change of the clients in force.
func New(ctx context.Context, reread func() (*config.Config, error), changed func(), log *slog.Logger) *Directory {
	d := &Directory{base: ctx, reread: reread, changed: changed, log: log, subjects: make(map[string]*subject)}
	d.unnamed, d.require = context.WithCancel(ctx)
	d.current.Store(&table{})
	return d
}

// Reload puts the clients of the configuration as it is now in force, and nothing else. A client that is
// gone is refused at once, as is one that shows an old token, and what it has open ends, as does what the
// subject of an access token has open whose name is now that of a client; others notice nothing. Reload
// waits for nothing that starts. After an error, which the log has too, everything is as it was.
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

// Set puts clients in force in place of all others, as [Directory.Reload] does.
func (d *Directory) Set(stated map[string]config.Client) { d.set(d.begin(), stated) }

// begin is called before the configuration is read, and returns the number of this reading.
func (d *Directory) begin() (reading uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

// set puts the clients of a reading in force, unless those of a later one are: a client that was
// removed must not come back with what was read before. Tokens that are not among them end at once,
// and with the first client of all every caller without a name.
func (d *Directory) set(reading uint64, stated map[string]config.Client) {
	if changed := d.replace(reading, stated); len(changed) > 0 {
		d.log.Info("named clients", "changed", changed)
		d.changed()
	}
}

// replace is set. It returns the names of the clients that are new, gone or others.
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
		if n == nil || before.stated[name].Toolset != c.Toolset { // what it has open sees too much, or too little
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
			k.timer.Stop() // that of the next table counts
		}
	}
	for name, n := range before.named {
		if next.named[name] != n {
			n.remove()
		}
	}
	return changed
}

// add adds a token, with what holds of it already.
func (t *table) add(before *table, c *client, hash, until string) {
	sum, err := clienttoken.ParseHash(hash)
	if err != nil { // "", since the configuration was checked
		return
	}
	k := &key{sum: sum, client: c}
	if until != "" {
		if k.until, err = time.Parse(time.RFC3339, until); err != nil || !time.Now().Before(k.until) {
			return
		}
	}
	if i := slices.IndexFunc(before.keys,
		func(old *key) bool { return old.client == c && old.sum == sum && old.holds() }); i >= 0 {
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

// ByToken returns the client that a token is of. until ends with the token or the client. The time
// that this takes depends on how many tokens there are, and neither on which of them it is nor on
// how much of it is right.
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

// Formerly returns the client that an old token was of, which has ended; "" for any other.
func (d *Directory) Formerly(token string) (name string) {
	hash := clienttoken.Hash(token)
	for name, c := range d.Stated() {
		if c.OldTokenHash == hash {
			return name
		}
	}
	return ""
}

// ByName is [Directory.ByToken] for a client that needs no token, because it is known otherwise.
func (d *Directory) ByName(name string) (until context.Context, ok bool) {
	c := d.current.Load().named[name]
	if c == nil {
		return nil, false
	}
	now := time.Now()
	c.lastUsed.Store(&now)
	return c.ctx, true
}

// Named reports whether there is a client of that name.
func (d *Directory) Named(name string) bool { return d.current.Load().named[name] != nil }

// Unnamed reports whether callers without a name may be served: there has never been a client since
// the host was opened. The removal of the last client lets nobody in who was kept out before. until
// ends with the first client.
func (d *Directory) Unnamed() (until context.Context, ok bool) {
	return d.unnamed, d.unnamed.Err() == nil
}

// Toolset returns the toolset of a client; "" for one that has none of its own, and for no client.
func (d *Directory) Toolset(name string) string { return d.Stated()[name].Toolset }

// Names returns the names of all clients, sorted.
func (d *Directory) Names() []string { return slices.Sorted(maps.Keys(d.current.Load().named)) }

// Stated returns the clients in force as the configuration states them. They must not be changed.
func (d *Directory) Stated() map[string]config.Client { return d.current.Load().stated }

// Changed returns the names of the clients that are other ones in stated than in force, sorted.
func (d *Directory) Changed(stated map[string]config.Client) []string {
	now, names := d.Stated(), []string{}
	for name, c := range stated {
		if was, ok := now[name]; !ok || was != c {
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

// Describe returns what is known of the clients, by name.
func (d *Directory) Describe() (list []status.NamedClient) {
	for name, c := range d.current.Load().named {
		list = append(list, status.NamedClient{Name: name, LastUsed: c.lastUsed.Load()})
	}
	slices.SortFunc(list, func(a, b status.NamedClient) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
