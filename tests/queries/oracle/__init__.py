"""A whole query in plain Python: what `run` and `stream` must answer, found with lists and nothing clever.

Every window is found anew from all rows, after every call; each aggregate is folded from scratch. Nothing here knows of
slices, and nothing is shared with the engines. Where the contract is silent this file decides, and these are the
decisions:

Rows
  1. The rows of a key are in the order of event time, and those of equal time in the order of arrival.
  2. The rows of one push are judged by the watermark before it, in the order of event time. One watermark serves all
     keys.
  3. A row that is not behind the watermark is never late: it enters every window it belongs to. (But for delta windows,
     where the column has gone back.)
  4. Each window definition judges for itself. What one takes may be too late for another; a row that none takes is
     late. So is one that belongs to no window at all (null in the column of a query of delta windows alone).

Windows
  5. A window is *due* at a time: it is emitted when the watermark reaches that. It is *final* when the watermark
     reaches due + allowed lateness: it then never changes again, whatever comes. By kind, with what tells one window
     of a definition from another (a row that moves what is not in brackets makes a revision, not another window):
       tumbling, sliding, cumulative    due at its end                       (start, end)
       one's own, session               due at its end                       (start, end)
       frames by time                   due at its end, or the row's time,
                                        whichever is later                   (the row's time, which row of that time)
       frames by rows                   due at the time of the row, or of
                                        its last row, if that comes later    (the number of the row)
       by rows                          due at the time of its last row      (from_row)
       the last n rows every d          due at the multiple of d             (from_row, to_row)
       delta                            due at the first time at which the
                                        column is at to_value or beyond      (from_value)
       punctuated                       due at its end, the marker's time    (start, end, which of these)
       policy                           due at the row's time                (end, which row of that time)
  6. Sessions are Spark's: a row exactly one gap after the last one still belongs to the session. Hence a row may come
     at the watermark for a session, or a frame by time, that ended there: with no lateness these are final one tick
     later, but for frames that end after their rows, and whose end is not in them.
  7. A late row is taken where some window that would hold it is not final. A window that it would be in and that is
     final is left as it was emitted, without the row. A session is only joined if that changes no final session.
     A late row makes no new window that would be final at once: the frame of a late row itself, for example, while
     the frames of later rows that are not final hold it. Such a row is late: it has no answer of its own. Nor does
     any row make such a delta window, or such a context-aware one: these may lie in the past though the row does not.
  8. A late row moves the numbers of all rows after it, so that every window by rows that ends after it changes, is
     emitted again if it was emitted, and keeps its from_row. Settled ones stay as they were. The numbers of rows that
     only final windows hold never change: a row before the first row of the first window that is not final is
     late.
  9. An emitted window is emitted again if other rows are in it than were, or its row has another time, whether or not
     the answer differs; once for each call, however many rows came. A window that is no more, or no longer due, is
     retracted; that too is a revision, and so is its return.
 10. At the end (`run`, `close`) windows are emitted that never became due, but for windows by rows that are not full;
     with `partial` these too, and their to_row is that of the rows there are. Frames, by rows as by time, and the last
     n rows every d, are full from the first row on. A frame that holds no row is emitted like any other.
 11. With `emit_empty`, windows whose edges are known by time (tumbling, sliding, cumulative) are emitted without rows
     too: for each key from the first window that holds a row of it to the last that ends by the greatest time seen
     (of any key, or of `advance`).
 12. Cumulative windows [k * range, k * range + j * every) are emitted for each j from the first that holds a row on.
 13. The last n rows every d: a multiple of d at which no row has come since the one before gives no new window. Rows
     at the multiple itself come after it. start and end are the times of the first and last row.
 14. Delta windows are aligned as time windows are: [k * every + offset, that + range). Rows are in them by value
     alone, so that a column that goes back, against the promise, finds the older windows, or is late for them. Null
     and NaN are in no window.
 15. A marker ends its window and is the last row in it: as with a trigger on the element that says "end". Null is no
     marker. The rows after the last marker are a window that is not due until the end.
 16. A policy is asked after each row, in event order: the longest oldest part that it lets go, goes. A window that it
     leaves empty is not emitted. A late row is as if it had come in order: all later windows are found anew. But the
     policy goes on from what it left at the last row whose window is final: what it let go by then never comes back,
     it is not asked about those rows again, a late row among them is one of them, and one before them is late.
 17. Context-aware windows lie between neighbouring edges. Before the first edge a window begins with its first row;
     after the last it is not due until the end, and ends one tick after its last row. `on_tuple` sees the rows taken,
     in the order in which they were taken.
 18. Late rows can carry a session back to one that is final, which they must not change. So that one is remembered
     for as long as the key has a session after it, or rows that could reach it: two gaps, and the lateness or one tick,
     after the last row of the key its sessions are forgotten, and the key begins anew.

Before and without rows
 19. With `emit_early` windows that hold rows are also emitted before they are due, whenever the greatest time seen (or
     the clock, for `ProcessingTime`) has moved on by so much since the last time. It is counted from the first push
     with rows on, and looked at in every call but `close`. An early window is emitted
     again, at the next such time or when it is due, only if other rows are in it than were. One that is no more, such
     as a session that has grown, is retracted at once. Windows by rows that are not full are emitted early only with
     `partial`.
 20. With `idle_timeout`, once no row has come for so long by the clock, event time goes on with the clock: the
     watermark is the greatest time seen less `watermark`, plus what has passed since the last row came. It is looked at
     before anything else in every call but `close`, and what is due by it is emitted before the rows of a push are
     judged.
"""

from queries.oracle.finding import ALL_TIMES
from queries.oracle.frames import frame_around, in_frame
from queries.oracle.query import Query, complete_answer, latest
from queries.oracle.results import NEVER, Result
from queries.oracle.stream import Stream

__all__ = ["ALL_TIMES", "NEVER", "Query", "Result", "Stream", "complete_answer", "frame_around", "in_frame", "latest"]
