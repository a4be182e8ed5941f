package hub

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost/cluster/internal/credentials"
	"github.com/exthost/exthost/cluster/internal/wire"
	settings "github.com/exthost/exthost/config/cluster"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/file/ownership"
)

// The files in the directory of a hub. All hubs of a cluster have the same keys, and exchange changes of recordFile.
const (
	recordFile   = "cluster.json"
	operatorFile = "operator.nk"
	accountFile  = "account.nk"
	systemFile   = "system.nk"
	caFile       = "ca.pem"
	caKeyFile    = "ca-key.pem"
)

const maxFile = 4 << 20

// ErrExists is returned by [Init] for a directory that already holds a cluster.
var ErrExists = errors.New("there is a cluster already")

// ErrInvited is returned by [Files.Invite], ErrNotInvited by [Files.Revoke].
var (
	ErrInvited    = errors.New("is invited already")
	ErrNotInvited = errors.New("is not invited")
)

// Files is the directory with the keys of a cluster. Whoever can read it can invite nodes.
type Files struct {
	dir                       string
	operator, account, system nkeys.KeyPair
	ca                        *authority
}

// Init creates the keys of a new cluster in dir, which must be private to the user. Invitations name urls as
// the addresses of the hubs.
func Init(dir, cluster string, urls []string) (*Files, error) {
	if err := settings.CheckName(cluster); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, recordFile)); err == nil {
		return nil, fmt.Errorf("%w in %s", ErrExists, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	unlock, err := file.LockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f := &Files{dir: dir}
	if f.operator, err = made(filepath.Join(dir, operatorFile), nkeys.CreateOperator); err != nil {
		return nil, err
	}
	if f.account, err = made(filepath.Join(dir, accountFile), nkeys.CreateAccount); err != nil {
		return nil, err
	}
	if f.system, err = made(filepath.Join(dir, systemFile), nkeys.CreateAccount); err != nil {
		return nil, err
	}
	cert, key, err := newAuthority(cluster)
	if err != nil {
		return nil, err
	}
	if err := file.WritePrivate(filepath.Join(dir, caFile), cert); err != nil {
		return nil, err
	}
	if err := file.WritePrivate(filepath.Join(dir, caKeyFile), key); err != nil {
		return nil, err
	}
	if f.ca, err = readAuthority(cert, key); err != nil {
		return nil, err
	}
	r := &record{Name: cluster, URLs: urls, Nodes: []Node{}}
	// written last, because it marks a complete directory
	return f, file.WritePrivate(filepath.Join(dir, recordFile), r.bytes())
}

// private refuses a directory that other users may access.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if who, byMode := ownership.Shared(info); who != "" {
		if byMode {
			return fmt.Errorf("%s is no place for the keys of a cluster: %s; chmod 700 %[1]s", dir, who)
		}
		return fmt.Errorf("%s is no place for the keys of a cluster: %s", dir, who)
	}
	return nil
}

// made creates a key and writes its seed.
func made(path string, make func() (nkeys.KeyPair, error)) (nkeys.KeyPair, error) {
	k, err := make()
	if err != nil {
		return nil, err
	}
	seed, err := k.Seed()
	if err != nil {
		return nil, err
	}
	return k, file.WritePrivate(path, append(seed, '\n'))
}

// OpenFiles reads the directory that [Init] created.
func OpenFiles(dir string) (*Files, error) {
	if _, err := os.Stat(filepath.Join(dir, recordFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no cluster in %s: exthost cluster init makes one: %w", dir, fs.ErrNotExist)
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	f := &Files{dir: dir}
	for _, k := range []struct {
		file string
		pair *nkeys.KeyPair
	}{{operatorFile, &f.operator}, {accountFile, &f.account}, {systemFile, &f.system}} {
		seed, err := f.read(k.file)
		if err != nil {
			return nil, err
		}
		if *k.pair, err = nkeys.FromSeed([]byte(strings.TrimSpace(string(seed)))); err != nil {
			return nil, fmt.Errorf("%s holds no key: %w", filepath.Join(dir, k.file), err)
		}
	}
	cert, err := f.read(caFile)
	if err != nil {
		return nil, err
	}
	key, err := f.read(caKeyFile)
	if err != nil {
		return nil, err
	}
	if f.ca, err = readAuthority(cert, key); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, caFile), err)
	}
	_, err = f.record()
	return f, err
}

func (f *Files) read(name string) ([]byte, error) {
	path := filepath.Join(f.dir, name)
	if refused := (ownership.Rule{}).Secret(path); refused != nil {
		return nil, refused
	}
	data, _, err := file.ReadRegular(path, maxFile, false)
	return data, err
}

func (f *Files) record() (*record, error) {
	data, err := f.read(recordFile)
	if err != nil {
		return nil, err
	}
	r := new(record)
	err = json.Unmarshal(data, r)
	if err == nil {
		err = settings.CheckName(r.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(f.dir, recordFile), err)
	}
	return r, nil
}

// change updates the record under a lock. It writes nothing if do fails or reports no change.
func (f *Files) change(do func(*record) (changed bool, err error)) error {
	unlock, err := file.LockDir(f.dir)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := f.record()
	if err != nil {
		return err
	}
	if changed, err := do(r); err != nil || !changed {
		return err
	}
	return file.WritePrivate(filepath.Join(f.dir, recordFile), r.bytes())
}

// Nodes returns all invitations, sorted by node and time.
func (f *Files) Nodes() ([]Node, error) {
	r, err := f.record()
	if err != nil {
		return nil, err
	}
	return r.Nodes, nil
}

// Fingerprint returns the SHA-256 of the CA certificate in hex.
func (f *Files) Fingerprint() string {
	sum := sha256.Sum256(f.ca.cert.Raw)
	return hex.EncodeToString(sum[:])
}

// Invite creates a user for a node, and returns the text of its invitation file. Running hubs accept the node
// at once. It returns [ErrInvited] if the node is invited already.
func (f *Files) Invite(node string) (file string, err error) {
	if err := settings.CheckName(node); err != nil {
		return "", err
	}
	err = f.change(func(r *record) (bool, error) {
		if r.find(node) != nil {
			return false, fmt.Errorf("%s %w", node, ErrInvited)
		}
		if len(r.Nodes) >= maxNodes {
			return false, fmt.Errorf("there are %d invitations already, those that were revoked included, and there "+
				"can be no more: begin a new cluster", maxNodes)
		}
		i, key, err := f.invitation(r, node)
		if err != nil {
			return false, err
		}
		r.Nodes = append(r.Nodes, Node{Node: node, Key: key, Invited: time.Now().UTC().Truncate(time.Second)})
		r.sort()
		file = i.String()
		return true, nil
	})
	if err != nil {
		return "", err
	}
	return file, nil
}

func (f *Files) invitation(r *record, node string) (i *credentials.Invitation, key string, err error) {
	k, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", err
	}
	if key, err = k.PublicKey(); err != nil {
		return nil, "", err
	}
	seed, err := k.Seed()
	if err != nil {
		return nil, "", err
	}
	u := jwt.NewUserClaims(key)
	u.Name, u.Limits.Subs = node, maxUserSubs
	u.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	subjects := wire.Subjects{Cluster: r.Name}
	u.Pub.Allow.Add(subjects.Publish(node)...)
	u.Sub.Allow.Add(subjects.Subscribe(node)...)
	text, err := u.Encode(f.account)
	if err != nil {
		return nil, "", err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.ca.cert.Raw})
	return &credentials.Invitation{
		Cluster: r.Name,
		Node:    node,
		URLs:    r.URLs,
		CA:      string(ca),
		JWT:     text,
		Seed:    string(seed),
	}, key, nil
}

// Revoke revokes all invitations of a node. Running hubs close the node's connections within a second. The node may be
// invited again, with a new key. Revoke returns [ErrNotInvited] if the node is not invited.
func (f *Files) Revoke(node string) error {
	return f.change(func(r *record) (bool, error) {
		found := false
		for n := r.find(node); n != nil; n = r.find(node) {
			n.Revoked, found = time.Now().UTC().Truncate(time.Second), true
		}
		if !found {
			return false, fmt.Errorf("%s %w", node, ErrNotInvited)
		}
		return true, nil
	})
}

// pool returns the cluster's CA, which nodes and hubs trust.
func (f *Files) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(f.ca.cert)
	return pool
}
