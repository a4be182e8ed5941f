#!/bin/sh
# Installs the program exthost of a release, verified, without root:
#
#	curl -fsSL https://github.com/exthost/exthost/releases/latest/download/install.sh | sh
#
# A failure leaves what was there before, and nothing else.
set -eu
export LC_ALL=C

usage() {
	cat <<'USAGE'
Usage: install.sh [--version VERSION] [--dir DIR] [--key KEY] [--slim]
       install.sh --uninstall [--dir DIR]

  --version VERSION  install this release; default: the latest
  --dir DIR          put the program there; default: ~/.local/bin, or /usr/local/bin for root
  --key KEY          require a signature of this minisign key: the key, or its file
  --slim             install the smaller program, without hubs and policies of CEL and gRPC
  --uninstall        remove the program from DIR; configuration and state stay

The archive must have the SHA-256 that the checksums of the release state. Their signature is verified too
with --key, and by cosign where that is installed.

EXTHOST_RELEASES=URL takes the place of https://github.com/exthost/exthost/releases, for a mirror.
USAGE
}

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE [NEXT STEP]
die() {
	say "install.sh: $1"
	[ -z "${2:-}" ] || say "  next: $2"
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# quoted prints a text as a word of the shell.
quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# line prints its input, which is the text of a program, as one line without control characters.
line() { tr '\n' ' ' | tr -d '\000-\037\177' | sed 's/ *$//; s/^\(.\{250\}\).*/\1 …/'; }

# The script is in one function, so that a part of this file, when its download is cut, does nothing.
main() {
	version=latest dir='' key='' program=exthost uninstall=''
	while [ $# -gt 0 ]; do
		case $1 in
		--version | --dir | --key)
			[ -n "${2:-}" ] || die "$1 needs a value" "see install.sh --help"
			case $1 in
			--version)
				version=${2#v}
				case $version in
				'' | [!0-9]* | *[!0-9A-Za-z.+-]* | *..*)
					die "\"$2\" is no version" "name one such as 1.2.3, or leave out --version for the latest"
					;;
				esac
				;;
			--dir) dir=$2 ;;
			--key) key=$2 ;;
			esac
			shift 2
			;;
		--slim) program=exthost-slim && shift ;;
		--uninstall) uninstall=yes && shift ;;
		-h | --help) usage && exit ;;
		*) die "there is no option $1" "see install.sh --help" ;;
		esac
	done
	case $key:${#key} in
	:0 | RW*:56) ;;
	*)
		[ -f "$key" ] || die "--key $key is no file, and no key: that has 56 characters and begins with RW" \
			"name the file of the key, or state the key"
		;;
	esac
	child='' timer='' notes='' tmp='' made=''
	trap clean EXIT
	trap 'interrupted 129' HUP
	trap 'interrupted 130' INT
	trap 'interrupted 131' QUIT
	trap 'interrupted 141' PIPE
	trap 'interrupted 143' TERM
	notes=$(mktemp -d) || die "mktemp makes no directory in ${TMPDIR:-/tmp}" "set TMPDIR to a directory of yours"
	place
	if [ -n "$uninstall" ]; then
		uninstall
	else
		install
	fi
}

# place decides on the directory, and looks at what is there under the name.
place() {
	if [ -z "$dir" ]; then
		if [ "$(id -u)" = 0 ]; then
			dir=/usr/local/bin
		else
			[ -n "${HOME:-}" ] || die "HOME is not set" "name the directory with --dir DIR"
			dir=$HOME/.local/bin
		fi
	fi
	case $dir in
	/*) ;;
	*)
		[ -d "${PWD:-}" ] || die "--dir $dir is relative, and the working directory is gone" "begin --dir with /"
		dir=$PWD/$dir
		;;
	esac
	while [ "$dir" != / ] && [ "${dir%/}" != "$dir" ]; do dir=${dir%/}; done
	target=${dir%/}/exthost
	old=''
	if [ -L "$target" ]; then
		die "$target is a link, which something else made" "remove it, or install elsewhere with --dir"
	elif [ -f "$target" ]; then
		ask "$target" || die "$target does not run: $reason" \
			"if it was exthost: rm $(quoted "$target"); otherwise install elsewhere with --dir"
		old=$said
	elif [ -e "$target" ]; then
		old='no file'
	fi
	case $old in
	'' | "exthost "*) ;;
	*) die "$target is there and is not exthost" "move it away, or install elsewhere with --dir" ;;
	esac
}

# start KIB COMMAND runs a command in the background, with files of at most KIB kibibytes. A signal to this shell is
# then not kept waiting by the command, as it is by one in the foreground.
start() {
	kib=$1
	shift
	(
		ulimit -f $((kib * 2)) 2>/dev/null || true # the unit is 512 bytes, of some shells 1024
		exec "$@" </dev/null
	) &
	child=$!
}

# finish waits for what start has begun, and returns its exit code.
finish() {
	code=0
	wait "$child" 2>/dev/null || code=$?
	child=''
	return $code
}

# ask has a program say its version: $said, or why it does not: $reason. It has 20 seconds.
ask() {
	start 64 "$1" --version >"$notes/out" 2>"$notes/err"
	(
		n=0
		while [ $n -lt 20 ]; do
			sleep 1
			n=$((n + 1))
		done
		kill -9 "$child"
	) >/dev/null 2>&1 &
	timer=$!
	finish || true
	stop "$timer"
	timer=''
	said=$(line <"$notes/out") reason=$(line <"$notes/err")
	case $code in
	0) reason=${reason:-it says nothing} ;;
	137 | 265) reason='it did not end within 20 seconds, or was killed' ;;
	*) reason=${reason:-its exit code is $code} ;;
	esac
	[ $code = 0 ] && [ -n "$said" ]
}

stop() { { kill -9 "$1" && wait "$1"; } 2>/dev/null || true; }

uninstall() {
	[ -n "$old" ] || die "there is no $target" "name its directory with --dir DIR"
	trap '' HUP INT QUIT PIPE TERM
	rm -f "$target" || die "$target cannot be removed" "run install.sh as the owner of $dir"
	say "removed $target"
	say "  what it has written stays: exthost in \$XDG_STATE_HOME (~/.local/state) and in \$XDG_CONFIG_HOME (~/.config)"
}

install() {
	releases=${EXTHOST_RELEASES:-https://github.com/exthost/exthost/releases}
	releases=${releases%/}
	home=''
	home=$(host "$releases")
	platform
	tools
	stage
	if [ "$version" = latest ]; then
		fetch "$releases/latest/download/checksums.txt" "$tmp/latest.txt" 128
		version=$(sed -n "s/^[0-9a-f]\{64\}  ${program}_\([0-9A-Za-z.+-]*\)_$system\.tar\.gz\$/\1/p" "$tmp/latest.txt")
		case $version in
		'' | *..* | *[!0-9A-Za-z.+-]*) die "the latest release has no program for $system" "$other" ;;
		esac
	fi
	archive=${program}_${version}_$system.tar.gz
	from=$releases/download/v$version
	fetch "$from/checksums.txt" "$tmp/checksums.txt" 128
	signature
	fetch "$from/$archive" "$tmp/$archive" 409600
	checksum
	unpack
	replace
}

# platform names the system as the archives do.
platform() {
	other="see https://github.com/exthost/exthost/releases, or go install github.com/exthost/exthost/cmd/exthost@latest"
	os=$(uname -s) arch=$(uname -m)
	case $os in
	Linux) os=linux ;;
	Darwin)
		os=darwin
		# A shell under Rosetta is told that the machine is another one.
		[ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" != 1 ] || arch=arm64
		;;
	*) die "there is no program for $os here" "run: winget install exthost.exthost; or $other" ;;
	esac
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) die "there is no program for $arch" "$other" ;;
	esac
	system=${os}_$arch
}

tools() {
	for tool in tar gzip sed mktemp; do
		has $tool || die "$tool is missing" "install $tool"
	done
	if has curl; then
		get=get_curl
	elif has wget && wget --version 2>/dev/null | grep -q '^GNU Wget 1'; then # others do not verify certificates
		get=get_wget hsts=''
		! wget --help | grep -q -e --no-hsts || hsts=--no-hsts
	else
		die "curl is missing, and so is GNU Wget" "install curl"
	fi
	if has sha256sum; then
		sum=sha256sum
	elif has shasum; then
		sum='shasum -a 256'
	elif has openssl; then
		sum='openssl dgst -sha256 -r'
	else
		die "nothing here computes a SHA-256" "install sha256sum, shasum or openssl"
	fi
	if [ -n "$key" ] && ! has minisign; then
		die "--key needs minisign, which is missing" "install minisign, or leave out --key"
	fi
}

# stage makes a directory beside the target, so that the last step is one rename within a file system.
stage() {
	at=$dir
	while [ ! -e "$at" ] && [ ! -L "$at" ]; do
		made=$at
		at=${at%/*}
		at=${at:-/}
	done
	mkdir -p "$dir" 2>/dev/null || die "$dir cannot be made" "name a directory of yours with --dir"
	tmp=$(mktemp -d "${dir%/}/.exthost.XXXXXXXX" 2>/dev/null) || die "nothing can be written in $dir" \
		"name a directory of yours with --dir"
}

# clean removes what this run has made, except the installed program. Of the directories it removes
# those that are empty.
clean() {
	trap '' HUP INT QUIT PIPE TERM
	for running in $timer $child; do stop "$running"; done
	[ -z "$notes" ] || rm -rf "$notes"
	[ -z "$tmp" ] || rm -rf "$tmp"
	[ -n "$made" ] || return 0
	at=$dir
	while rmdir "$at" 2>/dev/null || true; [ "$at" != "$made" ]; do at=${at%/*}; done
}

interrupted() {
	trap '' HUP INT QUIT PIPE TERM
	say "install.sh: interrupted; nothing is changed" || true
	exit "$1"
}

# host prints the host of a URL, if files may come from there: the host of the releases and, of GitHub, where it keeps
# files.
host() {
	case $1 in
	https://*) ;;
	*) die "$(bare "$1") is not https" "$mirrors" ;;
	esac
	name=${1#https://}
	name=${name%%/*}
	name=${name%:443}
	case $name in
	'' | *[!0-9A-Za-z.:-]*) die "$(bare "$1") has no plain host, or has a password" "$mirrors" ;;
	esac
	case ${home:-$name}:$name in
	"$name:$name" | github.com:*.githubusercontent.com) printf '%s' "$name" ;;
	*) die "$home redirects to another host: $(bare "$1")" "$mirrors" ;;
	esac
}
bare() { printf '%s' "$1" | sed 's|//.*@|//|'; } # without user and password

mirrors="try again from another network, or name a mirror: EXTHOST_RELEASES=https://HOST/PATH"

# fetch URL FILE KIB: at most KIB kibibytes.
fetch() {
	url=$1
	for hop in 1 2 3 4 5 6; do
		host "$url" >/dev/null
		status='' location='' trouble="make sure that $dir has space, and try again"
		rm -f "$2"
		$get "$url" "$2" "$3"
		case $status in
		200) return ;;
		301 | 302 | 303 | 307 | 308) ;;
		404) die "there is no $url" "see which releases there are: $releases" ;;
		[1-5][0-9][0-9]) die "$url: the server answered $status" "try again later" ;;
		*) die "$url could not be fetched, or not whole within its bounds" "$trouble" ;;
		esac
		case $location in
		/*) url=https://$(host "$url")$location ;;
		*) url=$location ;;
		esac
	done
	die "$1 redirects more than $hop times" "$mirrors"
}

get_curl() {
	start "$3" curl -q --silent --show-error --no-location --proto =https --connect-timeout 20 --max-time 1200 \
		--speed-time 60 --speed-limit 1000 --output "$2" --write-out '%{http_code} %{redirect_url}' "$1" >"$notes/out"
	if ! finish; then
		case $code in 5 | 6 | 7 | 28 | 35 | 60) trouble=$network ;; esac # no address, connection, answer or TLS
		return 0
	fi
	answer=$(cat "$notes/out")
	status=${answer%% *} location=${answer#* }
}

get_wget() {
	# shellcheck disable=SC2086 # no option, or one
	start "$3" wget $hsts --quiet --server-response --max-redirect=0 --tries=1 --timeout=60 \
		--output-file="$notes/out" --output-document="$2" "$1"
	if ! finish && [ $code != 8 ]; then # 8: the server's answer says no, or elsewhere
		cat "$notes/out" >&2
		case $code in 4 | 5) trouble=$network ;; esac # no connection, no TLS
		return 0
	fi
	status=$(sed -n 's/^ *HTTP\/[0-9.]* \([0-9]*\).*/\1/p' "$notes/out" | tail -n 1)
	location=$(tr -d '\r' <"$notes/out" | sed -n 's/^ *[Ll]ocation: *\([^ ]*\).*/\1/p' | tail -n 1)
}

network="look at the network, the proxy (https_proxy), the certificates and the clock; then try again"

# signature verifies checksums.txt by each way there is.
signature() {
	signed=''
	if [ -n "$key" ]; then
		fetch "$from/checksums.txt.minisig" "$tmp/checksums.txt.minisig" 64
		option=-P
		[ ! -f "$key" ] || option=-p
		comment=$(minisign -V -Q "$option" "$key" -m "$tmp/checksums.txt" -x "$tmp/checksums.txt.minisig" 2>&1) ||
			die "the checksums of $version are not signed by the key: $comment" "$report"
		# An older release is signed too; the comment is part of what is signed.
		[ "$comment" = "exthost $version" ] || die "the signature is that of $comment, not of exthost $version" "$report"
		signed=" and signature (minisign)"
	fi
	if has cosign; then
		fetch "$from/checksums.txt.sigstore.json" "$tmp/checksums.txt.sigstore.json" 1024
		cosigned || refuse_cosign
		signed="$signed and signature (cosign)"
	fi
}

# cosigned has cosign verify the bundle. Before 2.5 it reads this one with an option, which others may not have.
cosigned() {
	cosign_verify && return
	reason=$(tail -n 1 "$notes/err" | line)
	cosign_verify --new-bundle-format && return
	grep -q 'unknown flag' "$notes/err" || reason=$(tail -n 1 "$notes/err" | line)
	return 1
}

cosign_verify() {
	start 409600 cosign verify-blob --bundle "$tmp/checksums.txt.sigstore.json" \
		--certificate-identity "https://github.com/exthost/exthost/.github/workflows/release.yaml@refs/tags/v$version" \
		--certificate-oidc-issuer https://token.actions.githubusercontent.com "$@" "$tmp/checksums.txt" \
		>"$notes/err" 2>&1
	finish
}

# refuse_cosign ends the script. Only what cosign says of a signature that it has read is held against the release.
refuse_cosign() {
	case $reason in
	*'none of the expected identities matched'* | *'no matching CertificateIdentity found'* | \
		*'invalid signature when validating'*)
		die "the checksums of $version are not signed by their release: $reason" "$report"
		;;
	esac
	die "cosign could not verify the checksums of $version: $reason" \
		"update cosign, and try again from a network that reaches Sigstore"
}

report="do not use these files; report it as SECURITY.md of the project says"

checksum() {
	want=$(sed -n "s/^\([0-9a-f]\{64\}\)  $(printf '%s' "$archive" | sed 's/\./\\./g')\$/\1/p" "$tmp/checksums.txt")
	[ ${#want} = 64 ] || die "checksums.txt does not state $archive once" "see what is released for $system: $releases"
	got=$($sum <"$tmp/$archive") || die "$sum cannot compute the checksum of $archive" "see what $sum --help says"
	got=${got%% *}
	[ "$got" = "$want" ] || die "$archive has the SHA-256 $got, and the release states $want" "try again; then: $report"
}

# unpack takes the program alone out of the archive, and runs it once where it will be.
unpack() {
	tar -xOzf "$tmp/$archive" exthost >"$tmp/exthost" 2>"$notes/err" ||
		die "$archive could not be unpacked: $(line <"$notes/err")" "make sure that $dir has space; otherwise $report"
	[ -s "$tmp/exthost" ] || die "$archive has no program exthost" "$report"
	chmod 755 "$tmp/exthost"
	ask "$tmp/exthost" || die "the program does not run in $dir: $reason" \
		"name a directory that may have programs with --dir"
	case $said in
	"exthost $version "*) ;;
	*) die "the program of $archive says that it is $said" "$report" ;;
	esac
}

replace() {
	trap '' HUP INT QUIT PIPE TERM # from here on something is changed
	mv -f "$tmp/exthost" "$target" || die "$target could not be replaced" "name a directory of yours with --dir"
	verified="checksum$signed verified"
	[ -n "$signed" ] || verified='checksum verified, signature not verified: that needs cosign, or --key KEY'
	say "installed exthost $version as $target; $verified"
	case $old in
	'' | "exthost $version "*) ;;
	*)
		old=${old#exthost }
		say "  it replaces ${old%% *}, which hosts that run keep until they are started again"
		;;
	esac
	case :$PATH: in
	*":$dir:"*)
		first=$(command -v exthost) || first=$target
		[ "$first" = "$target" ] || say "  $first comes before it on PATH"
		;;
	*) say "  $dir is not on PATH: export PATH=$(quoted "$dir"):\"\$PATH\"" ;;
	esac
	say "  next: run exthost help"
}

main "$@"
