package serve

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
)

// The token file must be a regular file of a bounded size: a device has no end.
func TestTokenFileIsRegularAndBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for content, want := range map[string]string{
		"  secret\n":                  "",
		"\n":                          "holds no token",
		strings.Repeat("x", maxToken): "holds no token",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := bearerToken(config.Auth{TokenFile: file})
		if (err == nil) != (want == "") || err == nil && token != "secret" ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %.10q, %v", content, token, err)
		}
	}
	if _, err := bearerToken(config.Auth{TokenFile: os.DevNull}); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device: %v", err)
	}
}

// White space around the token of a variable, such as a line break at its end, is not part of it: no client could send
// such a token.
func TestTokenOfTheEnvironmentIsTrimmed(t *testing.T) {
	for value, want := range map[string]string{"secret\n": "secret", "\r\n": ""} {
		t.Setenv("SERVER_TOKEN", value)
		if token, err := bearerToken(config.Auth{TokenEnv: "SERVER_TOKEN"}); token != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", value, token, err)
		}
	}
}

// A host that cannot open its listener or its control socket for lack of descriptors names the limit.
func TestLackOfDescriptorsIsNamed(t *testing.T) {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE} {
		err := cannotListen("127.0.0.1:7800", &net.OpError{Op: "listen", Err: os.NewSyscallError("socket", lack)})
		e, ok := errors.AsType[*console.Error](err)
		if !ok || e.Code != console.ExitFailed || !strings.Contains(e.Text, lack.Error()) || e.Hint != noFiles {
			t.Errorf("%v: %+v", lack, err)
		}
	}
}
