package main

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/oncekeeper/oncekeeper/proto/oncekeeper/v1"
)

func TestBadInputSaysWhatToDoAndChangesNothing(t *testing.T) {
	onPebbleAndPostgres(t, func(t *testing.T, _ string, p examplePlace) {
		for _, id := range []string{"held", "other"} {
			held(t, p.keeper, "pay", id)
		}
		_, err := p.keeper.Begin(t.Context(), &pb.BeginRequest{Key: &pb.Key{Tenant: "demo", Operation: "pay", Id: "live"}})
		if err != nil {
			t.Fatal(err)
		}
		done(t, p.keeper, "demo", "pay", "done")
		ids := []string{"held", "other", "live", "done"}
		var before []*pb.KeyRecord
		for _, id := range ids {
			before = append(before, record(t, p.keeper, "pay", id))
		}
		_, _, stderr := command(t, "list", "--limit", "1", "--operation", "pay")
		_, token, _ := strings.Cut(strings.TrimSpace(stderr), "--page-token ")
		for _, c := range []struct {
			want string
			exit int
			args string
		}{
			{"page_token: was not given for these filters and this order: start again without one", exitFailed, "list --page-token nonsense"},
			{"page_token: was not given for these filters and this order: start again without one", exitFailed, "list --operation pay --page-token " + token + "x"},
			{"page_token: was not given for these filters and this order: start again without one", exitFailed, "list --operation refund --page-token " + token},
			{"page_token: was not given for these filters and this order: start again without one", exitFailed, "list --state unresolved --oldest-first --page-token " + token},
			{"look again with oncekeeper get", exitFailed, "resolve demo pay held --release --reason r --etag 1-1"},
			{"look again with oncekeeper get", exitFailed, "resolve demo pay held --release --reason r --force --etag " + before[1].GetEtag()},
			{"look again with oncekeeper get", exitFailed, "delete demo pay held --reason r --etag nonsense"},
			{"look again with oncekeeper get", exitFailed, "delete demo pay done --reason r --force --etag 1-1"},
			{"wait for it, or fence its holder with --force", exitFailed, "delete demo pay live --reason r --yes"},
			{"wait for it, or fence its holder with --force", exitFailed, "resolve demo pay live --release --reason r --yes"},
			{"give --force too", exitFailed, "delete demo pay done --reason r --yes"},
			{"give --yes", exitUsage, "delete demo pay held --reason r"},
			{"there is no record", exitNotFound, "delete demo pay none --reason r --yes"},
		} {
			code, stdout, stderr := command(t, strings.Fields(c.args)...)
			if code != c.exit || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("%s exits with %d and says %q%s; want %d, %q", c.args, code, stderr, stdout, c.exit, c.want)
			}
		}
		for i, id := range ids {
			if now := record(t, p.keeper, "pay", id); !proto.Equal(now, before[i]) {
				t.Errorf("every command was refused, and %s is\n%v, was\n%v", id, fmt.Sprint(now), before[i])
			}
		}
	})
}
