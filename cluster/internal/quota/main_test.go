package quota

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/internal/stormtest/entries"
)

// patience bounds every wait of a test; none is expected to last.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Verb{"natsd": natsd, "node": node})
}

// natsd is a NATS server with JetStream as a process: its words are its directory, its port, that of
// its routes, and those of the routes of all.
func natsd(words string) {
	fields := strings.Fields(words)
	port, _ := strconv.Atoi(fields[1])
	routes, _ := strconv.Atoi(fields[2])
	o := &server.Options{ServerName: "s" + fields[1], Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: fields[0], JetStreamMaxMemory: 16 << 20, JetStreamMaxStore: 256 << 20}
	if routes > 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: routes}
		for _, other := range fields[3:] {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + other})
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		fmt.Println("it is not ready")
		os.Exit(1)
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
}

// callers are those of a node in the tests.
const callers = 16

// node is a node as a process, whose callers use units as fast as they can: its words are its name, the limit, a file in
// which each unit is noted, and the servers. It ends once there are no more.
func node(words string) {
	fields := strings.Fields(words)
	limit, _ := strconv.ParseInt(fields[1], 10, 64)
	file, err := os.OpenFile(fields[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	q, closed, err := open(fields[0], 3, fields[3:]...)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
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
					time.Sleep(10 * time.Millisecond) // as callers that try again; a test waits for this process
				case wait > 0:
					return
				default:
					if err := entries.Add(file, fields[0]); err != nil {
						fmt.Println(err)
						os.Exit(1)
					}
					time.Sleep(2 * time.Millisecond) // what a call takes
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
	return quota.Claim{Policy: "p", Key: "k", Limit: limit, Window: 100_000 * time.Hour} // which has no end in a test
}

// open connects a node to servers.
func open(name string, nodes int, urls ...string) (q *Quota, closed func(), err error) {
	self := wire.Address{Node: name, Run: wire.NewRun()}
	l, err := link.Connect(context.Background(), link.Options{URLs: urls, Subjects: wire.Subjects{Cluster: "main"}, Self: self, Received: func(link.Message) {}, NotTaken: func(string) {}})
	if err != nil {
		return nil, nil, err
	}
	return New(Options{Cluster: "main", Node: name, Run: self.Run, Asker: l, Nodes: func() int { return nodes }}), func() { _ = l.Close(context.Background()) }, nil
}

// process is a process of a test.
type process struct {
	t    testing.TB
	args string
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Reader
}

func (p *process) start() {
	p.t.Helper()
	path, env := processtest.Script(p.t, p.args)
	p.cmd = exec.Command(path)
	p.cmd.Env, p.cmd.Stderr = env, os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		p.t.Fatalf("%s: %q, %v", p.args, line, err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed
}

func spawn(t testing.TB, args string) *process {
	t.Helper()
	p := &process{t: t, args: args}
	p.start()
	t.Cleanup(p.kill)
	return p
}

// servers are NATS servers with a bucket, that know each other.
type servers struct {
	all   []*process
	ports []string
	urls  []string
}

func startServers(t testing.TB, n int) *servers {
	t.Helper()
	var s servers
	var routes []string
	for i := range 2 * n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if i < n {
			s.ports, s.urls = append(s.ports, port), append(s.urls, "nats://127.0.0.1:"+port)
		} else {
			routes = append(routes, port)
		}
		l.Close()
	}
	dir := t.TempDir()
	for i := range n {
		if n == 1 {
			routes = []string{"0"}
		}
		s.all = append(s.all, spawn(t, strings.Join(append([]string{"natsd", filepath.Join(dir, s.ports[i]), s.ports[i], routes[i]}, routes...), " ")))
	}
	s.api(t, "CREATE", Stream("main", n))
	return &s
}

// api asks JetStream about the bucket, until it answers.
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

// leader returns the server that leads the bucket; nil while none does.
func (s *servers) leader(t testing.TB) *process {
	t.Helper()
	var info struct {
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if err := json.Unmarshal(s.api(t, "INFO", struct{}{}), &info); err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(s.ports, strings.TrimPrefix(info.Cluster.Leader, "s")); i >= 0 {
		return s.all[i]
	}
	return nil
}

// taken returns what the bucket has of the counter of claim.
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
