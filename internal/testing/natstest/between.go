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

// Between runs a proxy in front of the server at url until the test ends, and returns the proxy's URL. It calls say
// with each piece of data from the server; say must pass the data on.
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

// Impostor runs a fake server until the test ends, and returns its URL. The server sends more after each PONG.
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

// listen accepts connections until the test ends, and returns the URL. It calls take for each connection, on a
// goroutine of its own.
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
