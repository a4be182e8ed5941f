//go:build unix

package runtime

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/text/rawjson"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m, "TestHungIsReplaced"), map[string]processtest.Verb{
		"read":   func(string) { stdin.read() },
		"init":   stdin.initialize,
		"answer": stdin.answer,
		"last":   stdin.answerLast,
		"say":    stdin.say,
		"echo":   stdin.echo,
		"noise":  writeNoise,
		"bytes":  writeBytes,
		"sync":   meet,
		"dump":   stdin.dump,
		"half":   func(text string) { fmt.Print(text) },
		"cat":    func(string) { io.Copy(os.Stdout, os.Stdin) },
		"orphan": orphan,
		"pings":  stdin.pings,
		"mumble": stdin.mumble,
		"spin":   stdin.spin,
		"ask":    stdin.ask,
		"blank":  func(string) { writeEndless("\n") },
		"mcp":    serveMCP,

		"parrot":  stdin.parrot,
		"until":   stdin.until,
		"older":   stdin.older,
		"endless": func(string) { stdin.pages() },
	})
}

// syncVar is the variable with the socket for the verb sync.
const syncVar = "EXTHOST_TEST_SYNC"

type scriptStdin struct {
	lines   *bufio.Reader
	pending []json.RawMessage // requests read but not answered
}

var stdin = &scriptStdin{lines: bufio.NewReaderSize(os.Stdin, 1<<20)}

func (s *scriptStdin) read() bool {
	line, err := s.lines.ReadBytes('\n')
	if err == nil {
		s.pending = append(s.pending, bytes.TrimSpace(line))
	}
	return err == nil
}

// initialize reads the handshake and answers it with a result, or with the named tools.
func (s *scriptStdin) initialize(args string) {
	s.read()
	if !strings.HasPrefix(args, "{") {
		var tools []string
		for _, name := range strings.Fields(args) {
			tools = append(tools, fmt.Sprintf(`{"name":%q,"description":"d","input_schema":{"type":"object"}}`, name))
		}
		args = `{"server_version":"1.2.3","tools":[` + strings.Join(tools, ",") + `],"hooks":[]}`
	}
	s.answer(args)
}

// answer answers the oldest request, by default with its method and params.
func (s *scriptStdin) answer(result string) {
	request := s.pending[0]
	s.pending = s.pending[1:]
	reply(request, result)
}

func (s *scriptStdin) answerLast(result string) {
	last := len(s.pending) - 1
	request := s.pending[last]
	s.pending = s.pending[:last]
	reply(request, result)
}

func reply(request json.RawMessage, result string) {
	id := rawjson.Get(request, "id")
	if id == nil {
		return
	}
	if result == "" {
		result = fmt.Sprintf(`{"method":%s,"params":%s}`, rawjson.Get(request, "method"),
			orEmpty(rawjson.Get(request, "params")))
	}
	if rawjson.Get(request, "jsonrpc") == nil {
		fmt.Printf(`{"id":%s,"result":%s}`+"\n", id, result)
	} else {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	}
}

// say writes a line. $ID and $TOKEN stand for those of the oldest request.
func (s *scriptStdin) say(line string) {
	if len(s.pending) > 0 {
		meta := rawjson.Get(rawjson.Get(s.pending[0], "params"), "_meta")
		line = strings.ReplaceAll(line, "$TOKEN", string(rawjson.Get(meta, "progressToken")))
		line = strings.ReplaceAll(line, "$ID", string(rawjson.Get(s.pending[0], "id")))
	}
	fmt.Println(strings.ReplaceAll(line, `\xff`, "\xff"))
}

func (s *scriptStdin) echo(string) {
	for s.read() {
		s.answer("")
	}
}

// parrot answers every request with the same result, as fast as possible.
func (s *scriptStdin) parrot(result string) {
	for {
		line, err := s.lines.ReadSlice('\n')
		if err != nil {
			return
		}
		if id := rawjson.Get(line, "id"); id != nil {
			fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
		}
	}
}

// pings answers only the requests for method.
func (s *scriptStdin) pings(method string) {
	for s.read() {
		if string(rawjson.Get(s.pending[len(s.pending)-1], "method")) == `"`+method+`"` {
			s.answerLast("")
		}
	}
}

// mumble answers requests with a non-frame line each, as many as a connection tolerates in a row, and then none.
func (s *scriptStdin) mumble(string) {
	for lines := 0; s.read(); {
		if rawjson.Get(s.pending[len(s.pending)-1], "id") != nil && lines < maxNoise {
			lines++
			fmt.Println("WARN the pool is exhausted")
		}
	}
}

// spin answers every request with an incomplete non-frame line, like a progress display.
func (s *scriptStdin) spin(string) {
	for s.read() {
		fmt.Print("\r|")
	}
}

// until reads requests up to one for method, and drops the others.
func (s *scriptStdin) until(method string) {
	for s.read() {
		s.pending = s.pending[len(s.pending)-1:]
		if string(rawjson.Get(s.pending[0], "method")) == `"`+method+`"` {
			return
		}
	}
}

// older reads the first request and, if it is server/discover, ends in the stated way: "exit" at once, "null" after an
// error without an id, or "close" by closing stdin and stdout only.
func (s *scriptStdin) older(way string) {
	fmt.Fprintln(os.Stderr, "a server starts")
	s.read()
	if string(rawjson.Get(s.pending[0], "method")) != `"server/discover"` {
		return
	}
	fmt.Fprintln(os.Stderr, "what is server/discover?")
	if way != "exit" {
		fmt.Println(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not initialized"}}`)
	}
	if way == "close" {
		os.Stdin.Close()
		os.Stdout.Close()
		time.Sleep(time.Hour)
	}
	processtest.Exit(1)
}

// pages answers every request with a page and a new cursor.
func (s *scriptStdin) pages() {
	for n := 0; s.read(); n++ {
		s.answerLast(fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n))
	}
}

// dump writes the unanswered requests to stderr.
func (s *scriptStdin) dump(string) {
	for _, request := range s.pending {
		fmt.Fprintln(os.Stderr, string(request))
	}
	s.pending = nil
}

// orphan starts a process in its own session that holds our stdout.
func orphan(steps string) {
	cmd := exec.Command(os.Args[0])
	os.Setenv(processtest.ScriptVar, strings.ReplaceAll(steps, ",", ";"))
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		processtest.Exit(96)
	}
}

func writeNoise(n string) {
	var count int
	fmt.Sscan(n, &count)
	for i := range count {
		fmt.Println("npm WARN line", i)
	}
}

func writeBytes(n string) {
	var count int
	fmt.Sscan(n, &count)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for ; count > 0; count -= len(chunk) {
		if _, err := os.Stdout.Write(chunk[:min(count, len(chunk))]); err != nil {
			processtest.Exit(98)
		}
	}
}

// ask writes n requests with size bytes of padding, and reads until the host has refused the stated number of them.
func (s *scriptStdin) ask(args string) {
	var n, size, refused int
	fmt.Sscan(args, &n, &size, &refused)
	pad := strings.Repeat("x", size)
	for id := range n {
		fmt.Printf(`{"jsonrpc":"2.0","id":"ask %d","method":"ask","params":{"pad":"%s"}}`+"\n", id, pad)
	}
	for refused > 0 {
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			processtest.Exit(98)
		}
		if string(rawjson.Get(rawjson.Get(line, "error"), "code")) == "-32016" {
			refused--
		}
	}
}

// writeEndless writes text until nobody reads it any more.
func writeEndless(text string) {
	for chunk := []byte(strings.Repeat(text, 4096)); ; {
		if _, err := os.Stdout.Write(chunk); err != nil {
			processtest.Exit(98)
		}
	}
}

// meet reports a sync step to the test and waits until the test continues.
func meet(name string) {
	conn, err := net.Dial("unix", os.Getenv(syncVar))
	if err != nil {
		processtest.Exit(97)
	}
	fmt.Fprintln(conn, name)
	bufio.NewReader(conn).ReadString('\n')
	conn.Close()
}
