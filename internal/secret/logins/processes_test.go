package logins_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m), map[string]processtest.Verb{"callers": callers, "rotate": rotate})
}

// callersEach is the number of concurrent callers per process.
const callersEach = 64

// program runs this test binary as another program that shares the logins in dir.
func program(t *testing.T, verb, dir, url string) *exec.Cmd {
	t.Helper()
	path, env := processtest.Script(t, strings.Join([]string{verb, dir, url}, " "))
	cmd := exec.Command(path)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	return cmd
}

// shared opens the logins named by args.
func shared(args string) (*logins.Store, *logins.Login, string) {
	dir, url, _ := strings.Cut(args, " ")
	store := logins.Open(dir, signin.Client)
	return store, store.Login(logins.Place{ID: "x", Of: "/x", URL: url}), url
}

// callers waits for a line, lets many callers request a token at once, and prints the tokens.
func callers(args string) {
	store, l, _ := shared(args)
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	var all sync.WaitGroup
	got := make(chan string, callersEach)
	for range callersEach {
		all.Go(func() {
			token, err := l.Token(context.Background())
			got <- fmt.Sprint(token, " ", err)
		})
	}
	all.Wait()
	store.Close()
	close(got)
	for line := range got {
		fmt.Println(line)
	}
}

// TestExpiryForAll lets many callers in two processes find the token expired. One renewal serves all.
func TestExpiryForAll(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	store, dir, g := signedInAt(t, s)
	before := s.Asked("/token")
	var ins []io.WriteCloser
	var outs []*bufio.Reader
	var cmds []*exec.Cmd
	for range 2 {
		cmd := program(t, "callers", dir, s.URL)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(out)
		if line, err := r.ReadString('\n'); line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		ins, outs, cmds = append(ins, in), append(outs, r), append(cmds, cmd)
	}
	for _, in := range ins {
		in.Close()
	}
	seen := map[string]int{}
	for i, out := range outs {
		text, err := io.ReadAll(out)
		if err = errors.Join(err, cmds[i].Wait()); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			seen[line]++
		}
	}
	after, err := store.Get(g.Place)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.Asked("/token") - before; n != 1 || len(seen) != 1 || seen[after.Access+" <nil>\n"] != 2*callersEach ||
		!accepted(t, s, after.Access) {
		t.Errorf("%d requests for tokens; the callers got %v", n, seen)
	}
}

// rotate renews and uses tokens until it is killed.
func rotate(args string) {
	_, l, url := shared(args)
	for token, err := l.Token(context.Background()); ; {
		if err == nil {
			token, err = l.Renew(context.Background(), token, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		r, _ := http.NewRequest(http.MethodGet, url, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized {
			fmt.Fprintln(os.Stderr, "the server refuses", token)
			return
		}
	}
}

// TestKilledWhileRotating kills programs during renewals; the next one continues with the stored grant. Like many
// servers, the scripted one accepts the previous refresh token until the new tokens are used, which allows for
// lost responses. With stricter servers a lost response ends the login, whatever the client does. Against both,
// the client must not lose a token it has received, nor use one it has replaced.
func TestKilledWhileRotating(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	var victim atomic.Pointer[os.Process]
	kill := func() {
		if p := victim.Swap(nil); p != nil {
			_ = p.Kill()
		}
	}
	rotated := make(chan bool, 64)
	var at atomic.Int32 // where the next program is killed
	const whenAsked, whenAnswered, later = 0, 1, 2
	s.Token = func(http.ResponseWriter, *http.Request) bool {
		if at.Load() == whenAsked {
			kill()
		}
		return false
	}
	s.Tokens = func(map[string]any) {
		if at.Load() == whenAnswered {
			kill()
		}
		select {
		case rotated <- true:
		default:
		}
	}
	_, dir, g := signedInAt(t, s)
	at.Store(later)
	for n := range stormtest.Sized(6, 200) {
		for len(rotated) > 0 {
			<-rotated
		}
		cmd := program(t, "rotate", dir, s.URL)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 1 + rand.IntN(3) { // so that it is killed while it works
			select {
			case <-rotated:
			case <-limited(t).Done():
				t.Fatal("the program renews nothing")
			}
		}
		victim.Store(cmd.Process)
		if at.Store(int32(n % 3)); n%3 == later {
			time.AfterFunc(rand.N(5*time.Millisecond), kill)
		}
		_ = cmd.Wait()
		at.Store(later)
		next := logins.Open(dir, signin.Client)
		l := next.Login(g.Place)
		token, err := l.Token(limited(t))
		if err == nil {
			token, err = l.Renew(limited(t), token, nil)
		}
		if err != nil || !accepted(t, s, token) {
			t.Errorf("after %d: %v", n, err)
		}
		next.Close()
		if left, _ := filepath.Glob(filepath.Join(dir, "*", ".*")); len(left) > 0 {
			t.Errorf("after %d is left: %q", n, left)
		}
		if t.Failed() {
			break
		}
	}
	if done, refused := s.Refreshes(); refused > 0 {
		t.Errorf("%d of %d refreshes were refused", refused, done)
	}
}
