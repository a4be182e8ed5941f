package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/exthost/exthost/internal/testing/oauthtest"
)

// approve is a browser whose user approves at once.
func approve() {
	resp, err := http.Get(os.Args[1])
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// remote starts a remote MCP server that requires logins. It sets REMOTE to the server's address and ISSUER to the
// address of its authorization server. remote revoke revokes all logins.
func remote(t testing.TB) func(*testscript.TestScript, bool, []string) {
	var servers sync.Map // by script name
	return func(ts *testscript.TestScript, neg bool, args []string) {
		known, _ := servers.Load(ts.Name())
		s, _ := known.(*oauthtest.Servers)
		switch {
		case s == nil && len(args) == 0 && !neg:
			s = oauthtest.New(t)
			servers.Store(ts.Name(), s)
			ts.Setenv("REMOTE", s.URL)
			ts.Setenv("ISSUER", s.Issuer)
		case s != nil && len(args) == 1 && args[0] == "revoke":
			s.Revoke()
		default:
			ts.Fatalf("usage: remote [revoke]")
		}
	}
}
