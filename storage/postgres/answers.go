package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekeeper/oncekeeper"
	"github.com/oncekeeper/oncekeeper/lifecycle"
	"github.com/oncekeeper/oncekeeper/storage"
)

// boundAnswers has the commands of a call asked for alone, from the first on whose
// answer does not fit beside those before it. The answers' sizes are looked up
// before anything is applied.
func (s *Store) boundAnswers(ctx context.Context, batch []*task) {
	var keys columnsOf
	asked := map[oncekeeper.Key]int64{}
	for _, t := range batch {
		if len(t.cmds) == 1 {
			continue
		}
		for _, cmd := range t.cmds {
			begin, is := cmd.(lifecycle.Begin)
			if _, twice := asked[begin.Key]; is && !twice {
				asked[begin.Key] = 0
				keys.addKey(begin.Key)
			}
		}
	}
	if keys.n == 0 || s.sizes(ctx, &keys, asked) != nil {
		return // what is wrong with the database will be told where it is written
	}
	for _, t := range batch {
		left := int64(storage.MaxAnswerBytes)
		for i, cmd := range t.cmds {
			if begin, is := cmd.(lifecycle.Begin); is && len(t.cmds) > 1 {
				left -= asked[begin.Key]
			}
			if left < 0 {
				t.results[i].Err = oncekeeper.ErrAskAlone
			}
		}
	}
}

func (s *Store) sizes(ctx context.Context, keys *columnsOf, into map[oncekeeper.Key]int64) error {
	return s.with(ctx, tripLook, func(ctx context.Context, conn *pgxpool.Conn) error {
		b := &pgx.Batch{}
		n := s.queueRead(b, keys, s.sql.sizes)
		br := conn.SendBatch(ctx, b)
		return closed(br, eachOf(br, n, func(rows pgx.Rows) error {
			var key oncekeeper.Key
			var bytes int64
			err := rows.Scan(&key.Tenant, &key.Operation, &key.ID, &bytes)
			into[key] = bytes
			return err
		}))
	})
}

// boundReplays takes back what was settled since boundAnswers looked and does not
// fit: a replay changed nothing, and can be asked for again.
func (t *task) boundReplays() {
	answers := storage.AnswersTo(len(t.cmds))
	for i, res := range t.results {
		if res.Err == nil && !answers.Add(t.cmds[i], res.Record, res.Verdict) && res.Verdict == lifecycle.Replayed {
			t.results[i] = storage.Result{Now: res.Now, Err: oncekeeper.ErrAskAlone}
		}
	}
}
