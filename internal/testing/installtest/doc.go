// Package installtest tests install.sh against releases of its own on a local server. It contains tests only.
package installtest
