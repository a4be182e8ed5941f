// Package logins stores the OAuth grants of users at remote servers, one for each server of an extension or
// destination, and renews their access tokens.
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

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/secret/secrets/agefile"
)

// Store is a directory of grants. Each grant is encrypted in a subdirectory of its own, next to the key of the
// encryption, so that renewing one grant does not lock the others. Close the store after the last use of its logins.
type Store struct {
	dir    string
	client func(server string) *http.Client

	renewals concurrent.Gate
	ctx      context.Context // of renewals; canceled by Close
	cancel   context.CancelFunc

	mu      sync.Mutex
	logins  map[Place]*Login
	clients map[string]*http.Client // by server URL
}

// Open returns the store in dir. client returns the HTTP client for renewing tokens of a server.
func Open(dir string, client func(server string) *http.Client) *Store {
	s := &Store{dir: dir, client: client, logins: make(map[Place]*Login), clients: make(map[string]*http.Client)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// closePatience is how long Close waits for running renewals: their responses may contain the only valid refresh
// token.
const closePatience = 3 * time.Second

// Close waits up to closePatience for running renewals, and cancels the rest.
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

// Login returns the login of p, whether the user has signed in or not.
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

// path returns the file of p's grant.
func (s *Store) path(p Place) string { return filepath.Join(s.dir, p.name(), loginFile) }

// Names of a grant's files, and of the secret in the first of them.
const (
	loginFile = "login.age"
	identity  = "identity"
	entry     = "grant"
)

func at(path string) agefile.Store {
	return agefile.Store{Path: path, Identity: filepath.Join(filepath.Dir(path), identity)}
}

// Get returns p's grant, or nil.
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
		return nil, fmt.Errorf("%s holds no login, or a broken one", path) // without the cause, which may quote a token
	}
	return g, nil
}

// Put stores a grant, replacing an earlier one.
func (s *Store) Put(ctx context.Context, g *Grant) error {
	return s.update(ctx, s.path(g.Place), func(*Grant) (*Grant, error) { return g, nil })
}

// update replaces the grant in a file by the result of change, under the lock. change gets nil if there is no
// grant.
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

// Remove removes p's grant. Without one the error wraps [fs.ErrNotExist].
func (s *Store) Remove(p Place) error {
	dir := filepath.Dir(s.path(p))
	unlock, err := file.LockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(filepath.Join(dir, loginFile)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// List returns all readable grants, sorted by the id of their place, and the errors of the others.
func (s *Store) List() (list []*Grant, err error) {
	entries, err := os.ReadDir(s.dir) // sorted by name, which starts with the id
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	errs := []error{err}
	for _, e := range entries {
		g, err := s.read(filepath.Join(s.dir, e.Name(), loginFile))
		if g != nil {
			list = append(list, g)
		}
		errs = append(errs, err)
	}
	return list, errors.Join(errs...)
}
