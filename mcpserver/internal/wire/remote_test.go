package wire

import (
	"context"
	"net"
	"net/http"
	"testing"
)

func TestRemote(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}
	for _, tt := range []struct {
		from, header string
		want         bool
	}{
		{"127.0.0.1:5", "", false}, {"[::1]:5", "", false}, {"[::ffff:127.0.0.1]:5", "", false},
		{"@", "", false}, {"192.0.2.1:5", "", false},
		{"192.0.2.2:5", "", true}, {"[2001:db8::1]:5", "", true},
		{"127.0.0.1:5", "X-Forwarded-For", true}, {"127.0.0.1:5", "Forwarded", true}, {"@", "Via", true},
	} {
		r := (&http.Request{RemoteAddr: tt.from, Header: http.Header{}}).WithContext(context.WithValue(t.Context(),
			http.LocalAddrContextKey, at))
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		if got := Remote(r); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}
