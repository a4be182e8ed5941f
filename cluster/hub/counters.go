//go:build !nohub

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

	"github.com/exthost/exthost/internal/file/atomicfile"
	"github.com/exthost/exthost/internal/file/regular"
)

// The bounds of JetStream in a hub: it holds the counters of shared limits, and nothing else.
const (
	maxMemory    = 16 << 20
	maxStore     = 256 << 20
	accountStore = 3 << 26 // of the nodes: one bucket, which each replica counts against
	syncEach     = 2 * time.Second

	replicas      = 3 // of the counters, where there are as many hubs
	countersEach  = 500 * time.Millisecond
	countersAfter = time.Minute // once they are as they should be
	countersWait  = 2 * time.Second
	countersSaid  = countersAfter + 15*time.Second // hubs that begin at once find each other before

	nameFile = "name"
)

// keepCounters has the server keep the counters in a directory.
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
	o.ServerName = name // by which the others know it again
	o.JetStream, o.StoreDir, o.JetStreamMaxMemory, o.JetStreamMaxStore, o.SyncInterval = true, dir, maxMemory, maxStore,
		syncEach
	return nil
}

// nameIn returns the name of the server whose directory it is.
func nameIn(dir string) (string, error) {
	path := filepath.Join(dir, nameFile)
	data, _, err := regular.Read(path, 256, false)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte("hub-" + strings.ToLower(rand.Text()) + "\n")
		err = atomicfile.WritePrivate(path, data)
	}
	name := strings.TrimSpace(string(data))
	if err == nil && (name == "" || strings.ContainsAny(name, " \t\n.*>")) {
		err = fmt.Errorf("%s holds no name of a server", path)
	}
	return name, err
}

// grantCounters lets the account of the nodes keep the counters.
func grantCounters(a *jwt.AccountClaims) {
	a.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage:      accountStore,
		Streams:          1,
		Consumer:         1,
		MaxBytesRequired: true,
	}
}

// maintain makes the bucket of the counters, and has it on as many hubs as there are, until ctx ends.
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

// makeCounters makes the bucket where there is none, and gives it more replicas where there are
// more hubs than before.
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
		return errors.New("the other hubs are not there yet") // rather than to begin with one replica
	case errors.Is(err, errNoStream):
		_, err = askStream(ctx, conn, "CREATE", config.Name, config)
	case err == nil && found < want:
		_, err = askStream(ctx, conn, "UPDATE", config.Name, config)
	}
	return err
}

// errNoStream says that there is no bucket.
var errNoStream = errors.New("there is no bucket")

// askStream asks JetStream about a stream, and returns its replicas.
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

// countersUser connects a user of the nodes' account that may make the bucket, which no node may.
func (h *Hub) countersUser() (*nats.Conn, error) {
	stream, _ := Counters(h.name, 1)
	var publish []string
	for _, what := range []string{"INFO", "CREATE", "UPDATE"} {
		publish = append(publish, "$JS.API.STREAM."+what+"."+stream.Name)
	}
	return h.user(publish, nil)
}

// user connects a user of the nodes' account, which may publish to some subjects, and subscribe to its inbox and some.
func (h *Hub) user(publish, subscribe []string, more ...nats.Option) (*nats.Conn, error) {
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
	user, err := u.Encode(h.files.account)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", append(more, nats.InProcessServer(h.server), nats.CustomInboxPrefix(inbox),
		nats.NoReconnect(), nats.Timeout(countersWait),
		nats.UserJWT(func() (string, error) { return user, nil }, k.Sign))...)
}

// others returns the hubs of which the own is none, as far as that is known by their addresses.
func others(peers []string, own string) []string {
	return slices.DeleteFunc(slices.Clone(peers), func(p string) bool { return p == own })
}
