package program

import (
	"bytes"
	"testing"
)

func TestBounded(t *testing.T) {
	b := &bounded{max: 3}
	if n, err := b.Write([]byte("hello")); n != 5 || err != nil || !b.cut || !bytes.Equal(b.Bytes(), []byte("hel")) {
		t.Errorf("%d, %v, %q", n, err, b.Bytes())
	}
}
