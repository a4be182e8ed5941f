//go:build !slim

package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost/internal/file"
)

// The bounds of JetStream in a hub. JetStream stores nothing there but the counters of shared limits.
const (
	maxMemory    = 16 << 20
	maxStore     = 256 << 20
	accountStore = 3 << 26 // of the nodes' account: one bucket, counted once per replica
	syncEach     = 2 * time.Second

	replicas      = 3 // of the bucket, in a cluster of at least so many hubs
	countersEach  = 500 * time.Millisecond
	countersAfter = time.Minute // between checks of a complete bucket
	countersWait  = 2 * time.Second
	countersSaid  = countersAfter + 15*time.Second // failures are logged only later: hubs have to find each other

	nameFile = "name"
)

// keepCounters makes the server store the counters in dir.
func keepCounters(o *server.Options, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := private(dir); err != nil {
		return err
	}
	name, err := nameIn(dir)
	if err != nil {
		return err
	}
	o.ServerName = name // stable over restarts, so that the other hubs recognize it
	o.JetStream, o.StoreDir, o.JetStreamMaxMemory, o.JetStreamMaxStore, o.SyncInterval = true, dir, maxMemory, maxStore,
		syncEach
	return nil
}

// nameIn reads the server's name from its file in dir. If there is no file, it creates one with a random name.
func nameIn(dir string) (string, error) {
	path := filepath.Join(dir, nameFile)
	data, _, err := file.ReadRegular(path, 256, false)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte("hub-" + strings.ToLower(rand.Text()) + "\n")
		err = file.WritePrivate(path, data)
	}
	name := strings.TrimSpace(string(data))
	if err == nil && (name == "" || strings.ContainsAny(name, " \t\n.*>")) {
		err = fmt.Errorf("%s holds no name of a server", path)
	}
	return name, err
}

// grantCounters allows the nodes' account one JetStream stream, which is the bucket of the counters.
func grantCounters(a *jwt.AccountClaims) {
	a.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage:      accountStore,
		Streams:          1,
		Consumer:         1,
		MaxBytesRequired: true,
	}
}

// maintain creates the bucket, and adds replicas when hubs are added, until ctx ends.
func (h *Hub) maintain(ctx context.Context) {
	since := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := h.makeCounters(ctx)
		if err == nil {
			since = time.Now()
			timer.Reset(countersAfter)
			continue
		}
		if time.Since(since) > countersSaid && ctx.Err() == nil {
			h.log.Warn("the hub does not reach the counters of limits of scope cluster; it tries again", "error", err)
		}
		timer.Reset(countersEach)
	}
}

// makeCounters creates the bucket if it is missing, and adds replicas if hubs have been added.
func (h *Hub) makeCounters(ctx context.Context) error {
	conn, err := h.countersUser()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, countersWait)
	defer cancel()
	want := 1
	if h.server.JetStreamIsClustered() && len(h.server.ActivePeers()) >= replicas {
		want = replicas
	}
	config, _ := Counters(h.name, want)
	found, err := askStream(ctx, conn, "INFO", config.Name, struct{}{})
	switch {
	case errors.Is(err, errNoStream) && want == 1 && len(h.peers) >= replicas-1:
		return errors.New("the other hubs are not there yet") // do not begin with one replica
	case errors.Is(err, errNoStream):
		_, err = askStream(ctx, conn, "CREATE", config.Name, config)
	case err == nil && found < want:
		_, err = askStream(ctx, conn, "UPDATE", config.Name, config)
	}
	return err
}

// errNoStream is returned by askStream if the stream does not exist.
var errNoStream = errors.New("there is no bucket")

// askStream sends a request of the JetStream API about a stream, and returns the number of the stream's replicas.
func askStream(ctx context.Context, conn *nats.Conn, what, name string, body any) (replicas int, err error) {
	request, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	m, err := conn.RequestWithContext(ctx, "$JS.API.STREAM."+what+"."+name, request)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Config struct {
			Replicas int `json:"num_replicas"`
		} `json:"config"`
		Error *server.ApiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, err
	}
	switch e := answer.Error; {
	case e != nil && e.ErrCode == uint16(server.JSStreamNotFoundErr):
		return 0, errNoStream
	case e != nil:
		return 0, e
	}
	return answer.Config.Replicas, nil
}

// countersUser connects as a user that may create the bucket. Nodes may not.
func (h *Hub) countersUser() (*nats.Conn, error) {
	stream, _ := Counters(h.name, 1)
	var publish []string
	for _, what := range []string{"INFO", "CREATE", "UPDATE"} {
		publish = append(publish, "$JS.API.STREAM."+what+"."+stream.Name)
	}
	return h.user(h.files.account, publish, nil)
}

// user connects to this hub's server as a new user of account, who may use the given subjects and an inbox.
func (h *Hub) user(account nkeys.KeyPair, publish, subscribe []string, more ...nats.Option) (*nats.Conn, error) {
	k, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	key, err := k.PublicKey()
	if err != nil {
		return nil, err
	}
	inbox := "_INBOX_hub_" + key
	u := jwt.NewUserClaims(key)
	u.Name = "hub"
	u.Pub.Allow.Add(publish...)
	u.Sub.Allow.Add(append(subscribe, inbox+".>")...)
	user, err := u.Encode(account)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", append(more, nats.InProcessServer(h.server), nats.CustomInboxPrefix(inbox),
		nats.NoReconnect(), nats.Timeout(countersWait),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { // the default handler writes to stderr
			h.log.Warn("an error on the hub's connection to its own server", "error", err)
		}),
		nats.UserJWT(func() (string, error) { return user, nil }, k.Sign))...)
}

// otherHubs returns peers without own, the address of this hub.
func otherHubs(peers []string, own string) []string {
	return slices.DeleteFunc(slices.Clone(peers), func(p string) bool { return p == own })
}
