"""The judge of the travel desk sees each kind of wrong, in books that are doctored to show it."""

import pytest

from bench.travel.judge import Evidence, judge, unexplained
from bench.travel.plan import PARTS, Trip

TRIP = Trip("trip-000001", dinner=True, fails="", for_good=frozenset())
PARTS_OF_IT = TRIP.parts


def row(at, verb, part, word, *, fault="", trip=TRIP.name, pid=1):
    return {"at": at, "verb": verb, "trip": trip, "part": part, "word": word, "fault": fault, "pid": pid, "key": "k"}


def booked(*parts):
    return [row(10 * no, "book", part, "booked") for no, part in enumerate(parts, 1)]


def cancelled(*parts):
    return [row(1000 + 10 * no, "cancel", part, "cancelled") for no, part in enumerate(parts, 1)]


def entry(part, waiting="undo", *, undoing=False, trip=TRIP.name, processes=()):
    return {
        "operation_id": f"op-{part}-{undoing}",
        "trip": trip,
        "part": part,
        "undoing": undoing,
        "waiting": waiting,
        "reason": "",
        "processes": list(processes),
    }


def judged(books, queue=(), *, state, said=None, killed=()):
    runs = {TRIP.name: state, f"{TRIP.name}/stay": "completed" if state == "completed" else "compensated"}
    told = [{"trip": TRIP.name, "said": said or state}]
    return judge(Evidence([TRIP], books, list(queue), runs, told, frozenset(killed)))


def wrong(*args, **options):
    return sorted(judged(*args, **options).wrong)


STEPS = ("flight", "room", "dinner", "car", "hold")
BACK = tuple(reversed(STEPS))
REFUSED = row(900, "cancel", "flight", "refused")

# --- what is right ---


def test_all_done_is_right():
    assert wrong(booked(*PARTS_OF_IT), state="completed") == []


@pytest.mark.parametrize("back", [BACK, ("car", "hold", "dinner", "room", "flight")], ids=["one way", "or the other"])
def test_all_undone_last_first_is_right(back):
    assert wrong([*booked(*STEPS), *cancelled(*back)], state="compensated") == []


def test_a_step_that_is_refused_for_good_stands_in_the_queue():
    books = [*booked("flight", "room"), *cancelled("room"), row(1100, "cancel", "flight", "refused")]
    found = judged(books, [entry("flight")], state="partly_compensated")
    assert (found.wrong, found.kinds) == ({}, {"queued": 1})
    assert found.reasons == {"its undoing is refused for good": 1}


def test_a_mail_that_is_sent_stands_in_the_queue():
    books = [*booked(*PARTS_OF_IT), *cancelled("payment", *BACK)]
    assert wrong(books, [entry("mail")], state="partly_compensated") == []


@pytest.mark.parametrize("word", ["booked", "not_served"])
def test_a_true_doubt_stands_in_the_queue_whether_it_was_done_or_not(word):
    books = [*booked("flight"), row(50, "book", "dinner", word, fault="lost"), *cancelled("flight")]
    assert wrong(books, [entry("dinner", "unknown")], state="partly_compensated") == []


def test_a_killed_process_leaves_a_true_doubt():
    books = [*booked("flight"), *cancelled("flight")]
    queue = [entry("dinner", "unknown", processes=[7])]
    assert wrong(books, queue, state="partly_compensated", killed=[7]) == []
    assert wrong(books, queue, state="partly_compensated", killed=[8]) == ["queued without need"]
    assert unexplained(books, queue) == queue


def test_undoing_may_be_late_where_it_met_with_trouble():
    trouble = row(1001, "cancel", "room", "not_served", fault="dropped")
    books = [*booked("flight", "room"), trouble, *cancelled("flight", "room")]
    found = judged(books, state="compensated")
    assert (found.wrong, found.late) == ({}, 1)


# --- what is wrong ---


@pytest.mark.parametrize("part", PARTS_OF_IT)
def test_a_part_that_is_missing_makes_it_half_done(part):
    books = booked(*(each for each in PARTS_OF_IT if each != part))
    assert "half done" in wrong(books, state="completed")


@pytest.mark.parametrize("part", STEPS)
def test_a_part_that_stays_makes_it_half_done(part):
    books = [*booked(*STEPS), *cancelled(*(each for each in BACK if each != part))]
    assert wrong(books, state="compensated") == ["half done", "said otherwise", "told otherwise"]


@pytest.mark.parametrize("part", ["flight", "room", "car"])
def test_the_queue_must_name_each_step_that_stands(part):
    books = [*booked(*STEPS), *cancelled(*(each for each in BACK if each not in ("dinner", part)))]
    books.append(row(900, "book", "dinner", "again", fault="lost"))
    queue = [entry("dinner", "unknown")]
    assert wrong(books, queue, state="partly_compensated") == ["half done"]


@pytest.mark.parametrize("part", PARTS_OF_IT)
def test_done_twice_is_a_duplicate(part):
    books = [*booked(*PARTS_OF_IT), row(500, "book", part, "booked")]
    assert "done more than once" in wrong(books, state="completed")


@pytest.mark.parametrize("part", STEPS)
def test_undone_twice_is_a_double_compensation(part):
    books = [*booked(*STEPS), *cancelled(*BACK), row(2000, "cancel", part, "cancelled")]
    assert wrong(books, state="compensated") == ["undone more than once"]


@pytest.mark.parametrize("first", range(len(BACK) - 1))
def test_the_wrong_order_is_seen(first):
    back = list(BACK)
    back[first], back[first + 1] = back[first + 1], back[first]
    expected = [] if {back[first], back[first + 1]} == {"car", "hold"} else ["wrong order"]
    assert wrong([*booked(*STEPS), *cancelled(*back)], state="compensated") == expected


def test_trouble_that_came_later_is_no_excuse_for_the_order():
    books = [*booked("flight", "room"), *cancelled("flight", "room"), row(2000, "cancel", "room", "gone", fault="lost")]
    assert wrong(books, state="compensated") == ["wrong order"]


def test_undone_before_it_was_done_is_the_wrong_order():
    books = [row(5, "cancel", "flight", "cancelled"), *booked("flight")]
    assert "wrong order" in wrong(books, state="compensated")


def test_what_was_never_done_must_not_be_undone():
    assert wrong(cancelled("hold"), state="compensated") == ["wrong order"]


def test_what_begins_behind_the_rollbacks_back_is_seen():
    books = [*booked("flight"), *cancelled("flight"), row(1500, "book", "room", "booked")]
    books.append(row(1600, "cancel", "room", "cancelled"))
    assert "done behind the back" in wrong(books, state="compensated")


def test_a_mail_before_what_it_speaks_of_is_seen():
    books = booked("mail", *(part for part in PARTS_OF_IT if part != "mail"))
    assert wrong(books, state="completed") == ["mail too early"]


def test_a_doubt_that_could_be_settled_is_no_need():
    books = [*booked("flight", "room"), *cancelled("room"), row(90, "book", "flight", "again", fault="lost")]
    assert wrong(books, [entry("flight", "unknown")], state="partly_compensated") == ["queued without need"]


def test_a_doubt_without_a_fault_is_no_need():
    books = [*booked("dinner")]
    assert wrong(books, [entry("dinner", "unknown")], state="partly_compensated") == ["queued without need"]


def test_a_fault_in_doing_it_is_no_doubt_about_its_undoing():
    books = [row(10, "book", "dinner", "booked", fault="lost"), *cancelled("dinner")]
    queue = [entry("dinner", "unknown", undoing=True)]
    assert wrong(books, queue, state="partly_compensated") == ["queued without need"]


def test_a_step_that_stands_without_a_refusal_is_no_need():
    assert wrong(booked("flight"), [entry("flight")], state="partly_compensated") == ["queued without need"]


def test_a_step_that_is_undone_is_no_need():
    books = [*booked("flight"), REFUSED, *cancelled("flight")]
    assert wrong(books, [entry("flight")], state="partly_compensated") == ["queued without need"]


def test_one_step_stands_there_once():
    books = [*booked("dinner"), row(50, "cancel", "dinner", "not_served", fault="dropped")]
    queue = [entry("dinner", "unknown", undoing=True), entry("dinner")]
    assert "queued more than once" in wrong(books, queue, state="partly_compensated")


@pytest.mark.parametrize("state", ["compensated", "partly_compensated", "active", "kept", "rolling_back", "new"])
def test_the_run_of_what_is_done_must_be_completed(state):
    assert "said otherwise" in wrong(booked(*PARTS_OF_IT), state=state, said="completed")


def test_an_inner_run_is_undone_with_the_trip():
    runs = {TRIP.name: "compensated", f"{TRIP.name}/stay": "kept"}
    books = [*booked("flight"), *cancelled("flight")]
    told = [{"trip": TRIP.name, "said": "compensated"}]
    found = judge(Evidence([TRIP], books, [], runs, told, frozenset()))
    assert sorted(found.wrong) == ["said otherwise"]


@pytest.mark.parametrize(("said", "state"), [("completed", "compensated"), ("compensated", "completed")])
def test_an_agent_that_was_told_otherwise_is_seen(said, state):
    books = booked(*PARTS_OF_IT) if state == "completed" else [*booked("flight"), *cancelled("flight")]
    assert wrong(books, state=state, said=said) == ["told otherwise"]


def test_an_agent_that_was_told_nothing_is_seen():
    runs = {TRIP.name: "completed"}
    found = judge(Evidence([TRIP], booked(*PARTS_OF_IT), [], runs, [], frozenset()))
    assert sorted(found.wrong) == ["told otherwise"]


def test_what_is_of_no_trip_is_seen():
    strange = [row(1, "book", "flight", "booked", trip="trip-999999"), row(2, "cancel", "", "strange", trip="")]
    queue = [entry("flight", trip="")]
    assert wrong([*booked(*PARTS_OF_IT), *strange], queue, state="completed") == ["queued without need", "strange"]


def test_every_part_can_be_undone_but_the_mail():
    assert [part.name for part in PARTS.values() if not part.undoes] == ["mail"]
