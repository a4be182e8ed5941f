// Package installtest tests install.sh against releases of its own on a local server, and installs the packages and
// runs the images that .ci/release makes. It contains tests only.
package installtest
