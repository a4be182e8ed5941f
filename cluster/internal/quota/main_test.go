package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// patience bounds every wait; none is expected to last so long.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m), map[string]processtest.Verb{natstest.Name: natstest.Verb, "node": node})
}

// callers is the number of callers per node.
const callers = 16

// node runs a node as a process. Callers in it use units as fast as they can, until none are left. words are the node's
// name, the limit, a file to which each unit is appended, and the servers.
func node(words string) {
	fields := strings.Fields(words)
	limit, _ := strconv.ParseInt(fields[1], 10, 64)
	file, err := os.OpenFile(fields[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	processtest.Check(err)
	q, closed, err := open(fields[0], 3, fields[3:]...)
	processtest.Check(err)
	pool := quota.NewPool(q)
	c := pool.New(claim(limit))
	fmt.Println("ready")
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				_, wait, err := c.Take(context.Background(), time.Now(), 1)
				switch {
				case err != nil:
					time.Sleep(10 * time.Millisecond) // between tries of a caller; a test waits for this process
				case wait > 0:
					return
				default:
					processtest.Check(stormtest.AddEntry(file, fields[0]))
					time.Sleep(2 * time.Millisecond) // the time of a call
				}
			}
		})
	}
	wg.Wait()
	_ = pool.Close(context.Background())
	closed()
	fmt.Println("used up")
}

func claim(limit int64) quota.Claim {
	return quota.Claim{Policy: "p", Key: "k", Limit: limit, Window: 100_000 * time.Hour} // does not end in a test
}

// open connects a node to servers.
func open(name string, nodes int, urls ...string) (q *Quota, closed func(), err error) {
	self := wire.Address{Node: name, Run: wire.NewRun()}
	l, err := link.Connect(context.Background(),
		link.Options{
			Access:   natsclient.Access{URLs: urls},
			Subjects: wire.Subjects{Cluster: "main"},
			Self:     self,
			Received: func(link.Message) {},
			NotTaken: func(string) {},
		})
	if err != nil {
		return nil, nil, err
	}
	return New(Options{
			Cluster: "main",
			Node:    name,
			Run:     self.Run,
			Asker:   l,
			Nodes:   func() int { return nodes },
		}), func() {
			_ = l.Close(context.Background())
		}, nil
}

// opened opens a node in the test's process.
func opened(t testing.TB, s *servers, name string, nodes int) *Quota {
	t.Helper()
	q, closed, err := open(name, nodes, s.urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	return q
}

// pooled returns a pool of a node in the test's process.
func pooled(t testing.TB, q *Quota) *quota.Pool {
	t.Helper()
	pool := quota.NewPool(q)
	t.Cleanup(func() {
		if err := pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// servers are clustered NATS servers with a bucket.
type servers struct {
	list []natstest.Server
	all  []*processtest.Process
	urls []string
}

func startServers(t testing.TB, n int) *servers {
	t.Helper()
	s := &servers{list: natstest.Knowing(t, n)}
	for i := range s.list {
		one := &s.list[i]
		if one.Store = filepath.Join(t.TempDir(), one.Port); n == 1 {
			one.RoutesPort = "" // JetStream would wait for other servers
		}
		s.all, s.urls = append(s.all, one.Spawn(t)), append(s.urls, one.URL())
	}
	s.api(t, "CREATE", Stream("main", n))
	return s
}

// api sends a JetStream request about the bucket until it is answered.
func (s *servers) api(t testing.TB, what string, body any) []byte {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(strings.Join(s.urls, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for began := time.Now(); ; {
		m, err := conn.Request("$JS.API.STREAM."+what+"."+stream("main"), data, time.Second)
		if err == nil && !strings.Contains(string(m.Data), `"error"`) {
			return m.Data
		}
		if time.Since(began) > patience {
			t.Fatalf("%s: %v: %s", what, err, m.Data)
		}
	}
}

// leader returns the index of the bucket's leader, or -1.
func (s *servers) leader(t testing.TB) int {
	t.Helper()
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if err := json.Unmarshal(s.api(t, "INFO", struct{}{}), &info); err != nil {
		t.Fatal(err)
	}
	return slices.IndexFunc(s.list, func(one natstest.Server) bool { return info.Cluster.Leader == "s"+one.Port })
}

// taken returns the stored record of the counter of claim.
func taken(t testing.TB, q *Quota) *record {
	t.Helper()
	c := claim(1)
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		r, _, err := q.bucket.get(ctx, token(&c))
		cancel()
		if err == nil && r != nil {
			return r
		}
		if time.Since(began) > patience {
			t.Fatal(errors.Join(err, errors.New("no record")))
		}
	}
}
