// Package natstest runs NATS servers as processes of tests.
package natstest

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// Name is the name of [Verb] in test scripts.
const Name = "natsd"

// Server configures a server on the loopback interface. The server's name is s and Port.
type Server struct {
	Port       string
	RoutesPort string             // port for other servers; "": no cluster
	Routes     []string           // RoutesPort of all servers
	MaxPayload int32              // 0: default
	Store      string             // directory of JetStream; "": no JetStream
	Token      string             // token that clients must present; "": none
	Users      []*server.User     // nil: everybody may connect
	Nkeys      []*server.NkeyUser // nil: everybody may connect
}

// Knowing returns the configurations of n servers of one cluster, on free ports.
func Knowing(t testing.TB, n int) (list []Server) {
	t.Helper()
	free := processtest.FreePorts(t, 2*n)
	for i := range n {
		list = append(list, Server{Port: free[i], RoutesPort: free[n+i], Routes: free[n:]})
	}
	return list
}

// URL returns the URL for clients.
func (s Server) URL() string { return "nats://127.0.0.1:" + s.Port }

// Options returns the options of the server.
func (s Server) Options() (*server.Options, error) {
	port, err := strconv.Atoi(s.Port)
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName:    "s" + s.Port,
		Host:          "127.0.0.1",
		Port:          port,
		NoSigs:        true,
		NoLog:         true,
		MaxPayload:    s.MaxPayload,
		Authorization: s.Token,
		Users:         s.Users,
		Nkeys:         s.Nkeys,
	}
	if s.Store != "" {
		o.JetStream, o.StoreDir, o.JetStreamMaxMemory, o.JetStreamMaxStore = true, s.Store, 16<<20, 256<<20
	}
	if s.RoutesPort != "" {
		if port, err = strconv.Atoi(s.RoutesPort); err != nil {
			return nil, err
		}
		// without advertising, tests decide where their clients connect
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port, NoAdvertise: true}
		for _, port := range s.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + port})
		}
	}
	return o, nil
}

// Script returns the script that runs the server in a test binary with [Verb].
func (s Server) Script() string {
	text, _ := json.Marshal(s) // strings and numbers always encode
	return Name + " " + strings.ReplaceAll(string(text), ";", `\u003b`)
}

// Spawn runs the server until the end of the test.
func (s Server) Spawn(t testing.TB) *processtest.Process {
	t.Helper()
	return processtest.Spawn(t, s.Script())
}

// Run runs a server in this process until the end of the test.
func Run(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	s, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func start(o *server.Options) (*server.Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		s.Shutdown()
		return nil, errors.New("the server is not ready")
	}
	return s, nil
}

// Verb runs a server until stdin ends.
func Verb(text string) {
	var s Server
	processtest.Check(json.Unmarshal([]byte(text), &s))
	o, err := s.Options()
	processtest.Check(err)
	running, err := start(o)
	processtest.Check(err)
	processtest.Ready()
	running.Shutdown()
}
