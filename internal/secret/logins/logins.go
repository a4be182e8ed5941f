// Package logins keeps what the user has signed in to: the grants of authorization servers, one for
// each server that an extension or a destination reaches, and renews their tokens.
package logins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/concurrent/inflight"
	"github.com/exthost/exthost/internal/file/dirlock"
	"github.com/exthost/exthost/internal/secret/secrets/agefile"
)

// Store is a directory of grants. Each is encrypted in a directory of its own, with its key beside
// it, so that a grant that is being renewed locks no other. Close it after the last use of its
// logins.
type Store struct {
	dir    string
	client func(server string) *http.Client

	renewals inflight.Gate
	ctx      context.Context // of the renewals
	cancel   context.CancelFunc

	mu      sync.Mutex
	logins  map[Place]*Login
	clients map[string]*http.Client // by the address of the server
}

// Open returns the store in dir. client returns the client with which tokens are renewed for the
// server at an address.
func Open(dir string, client func(server string) *http.Client) *Store {
	s := &Store{dir: dir, client: client, logins: make(map[Place]*Login), clients: make(map[string]*http.Client)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// closePatience is how long Close waits for renewals: an answer that is not waited for may have
// been the only one with the next token.
const closePatience = 3 * time.Second

// Close ends all renewals. Those that are under way may end before.
func (s *Store) Close() {
	idle := s.renewals.Close()
	select {
	case <-idle:
	case <-time.After(closePatience):
	}
	s.cancel()
	<-idle
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, client := range s.clients {
		client.CloseIdleConnections()
	}
}

// Login returns the login of a place, whether somebody has signed in there or not.
func (s *Store) Login(p Place) *Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logins[p]; l != nil {
		return l
	}
	if s.clients[p.URL] == nil {
		s.clients[p.URL] = s.client(p.URL)
	}
	l := &Login{store: s, place: p, path: s.path(p), client: s.clients[p.URL]}
	s.logins[p] = l
	return l
}

// path returns the file of the grant for p.
func (s *Store) path(p Place) string { return filepath.Join(s.dir, p.name(), file) }

// The files of a grant, and its name in the first.
const (
	file     = "login.age"
	identity = "identity"
	entry    = "grant"
)

func at(path string) agefile.Store {
	return agefile.Store{Path: path, Identity: filepath.Join(filepath.Dir(path), identity)}
}

// Get returns the grant for p; nil when there is none.
func (s *Store) Get(p Place) (*Grant, error) { return s.read(s.path(p)) }

func (s *Store) read(path string) (*Grant, error) {
	text, err := at(path).Get(entry)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(path, text)
}

func decode(path, text string) (*Grant, error) {
	g := new(Grant)
	if err := json.Unmarshal([]byte(text), g); err != nil {
		return nil, fmt.Errorf("%s holds no login, or a broken one", path) // the cause may quote a token
	}
	return g, nil
}

// Put stores a grant in the place of an earlier one.
func (s *Store) Put(ctx context.Context, g *Grant) error {
	return s.update(ctx, s.path(g.Place), func(*Grant) (*Grant, error) { return g, nil })
}

// update replaces the grant in a file by what change returns, while no other program reads or
// writes it. The grant that change gets is nil where there is none.
func (s *Store) update(ctx context.Context, path string, change func(*Grant) (*Grant, error)) error {
	return at(path).Update(ctx, entry, func(text string, exists bool) (string, error) {
		var g *Grant
		if exists {
			var err error
			if g, err = decode(path, text); err != nil {
				return "", err
			}
		}
		g, err := change(g)
		if err != nil {
			return "", err
		}
		out, err := json.Marshal(g)
		return string(out), err
	})
}

// Remove forgets the grant for p. The error wraps [fs.ErrNotExist] where there is none.
func (s *Store) Remove(p Place) error {
	dir := filepath.Dir(s.path(p))
	unlock, err := dirlock.Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(filepath.Join(dir, file)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// List returns all grants, sorted by the id of their place. The error is about those that cannot
// be read.
func (s *Store) List() (list []*Grant, err error) {
	entries, err := os.ReadDir(s.dir) // sorted by name, which begins with the id
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	for _, e := range entries {
		g, err := s.read(filepath.Join(s.dir, e.Name(), file))
		if g != nil {
			list = append(list, g)
		}
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}
