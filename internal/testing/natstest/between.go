package natstest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Between stands between clients and the server at a url until the test ends, and returns where clients
// connect. What the server says to a client is passed on by say, which is called for one piece after the other.
func Between(t testing.TB, url string, say func(client net.Conn, words []byte)) string {
	t.Helper()
	return listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
		if err != nil {
			return
		}
		var up sync.WaitGroup
		defer up.Wait()
		defer client.Close()
		up.Go(func() { _, _ = io.Copy(server, client); server.Close() })
		words := make([]byte, 64<<10)
		for n, err := server.Read(words); err == nil; n, err = server.Read(words) {
			say(client, words[:n])
		}
	})
}

// Impostor takes the connections of clients until the test ends, as a server does that says some more after
// its first PONG. It returns where clients connect.
func Impostor(t testing.TB, more string) string {
	t.Helper()
	return listen(t, func(client net.Conn) {
		fmt.Fprint(client, `INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576,"headers":true}`+
			"\r\n")
		for in := bufio.NewScanner(client); in.Scan(); {
			if in.Text() == "PING" {
				fmt.Fprint(client, "PONG\r\n", more)
			}
		}
	})
}

// listen has take called for each connection, on a goroutine of its own, until the test ends.
func listen(t testing.TB, take func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { defer c.Close(); take(c) })
		}
	})
	return "nats://" + l.Addr().String()
}
