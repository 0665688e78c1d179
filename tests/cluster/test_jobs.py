"""Jobs on clusters, by the platform in Rust (examples/embed_rust --cluster): right, attached to by another process when theirs is
killed, lost with their scheduler and run again on another, never half an output."""
import json, os, re, shutil, signal, subprocess, sys, time, urllib.request
import pytest
from conftest import BUILD, CACHE, ROOT, Cluster

sys.path.insert(1, str(ROOT / "tests/program"))
import importlib.util

# tests/program has a conftest of its own, which its tests import by that name.
_spec = importlib.util.spec_from_file_location("program_conftest", ROOT / "tests/program/conftest.py")
_ours = sys.modules["conftest"]
_theirs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_theirs)
sys.modules["conftest"] = _theirs
try:
    from test_embed_rust import Platform, build
    from test_embed_sqlite import QUERIES, duck, is_close, oracle  # noqa: F401 (fixtures)
finally:
    sys.modules["conftest"] = _ours

CHOSEN = [1, 3]
# A second of work: a hundred suppliers, each with 600 x 20 x 20 combinations of its lines.
LONG = """select count(*) as n, sum(a.l_linenumber * c.l_linenumber) as s from lineitem a
          join (select l_suppkey from lineitem where l_orderkey < 2000) b on a.l_suppkey = b.l_suppkey
          join (select l_suppkey, l_linenumber from lineitem where l_orderkey < 2000) c on a.l_suppkey = c.l_suppkey"""


@pytest.fixture(scope="module")
def program(programs):
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed: jobs on clusters are NOT tested")
    return build()


def start(program, folder, cluster):
    return Platform(program, folder, "--cluster", cluster.address)


def end(platform):
    platform.process.send_signal(signal.SIGTERM)
    assert platform.process.wait(60) == 0, "the platform must end cleanly"


def jobs_there(cluster, name):
    """What the scheduler's own REST says of jobs of that name; None: it has no REST."""
    try:
        with urllib.request.urlopen(f"http://{cluster.address}/api/jobs", timeout=10) as answer:
            return [job for job in json.load(answer) if job["job_name"] == name]
    except OSError:
        return None


def wait_until_it_runs(cluster, name):
    for _ in range(600):
        known = jobs_there(cluster, name)
        if known is None:
            time.sleep(1)
            return
        if any(job["status"] == "Running" or "unning" in job["job_status"] for job in known):
            return
        time.sleep(0.05)


def test_jobs_are_right_and_fetched_by_another_process(program, cluster, oracle, tmp_path):  # noqa: F811
    platform = start(program, tmp_path, cluster)
    answers = platform.run(*(QUERIES[n] for n in CHOSEN))
    for number, ours in zip(CHOSEN, answers):
        word, job = platform.said()
        theirs = oracle(number)
        assert word == "job" and not isinstance(ours, dict), ours
        assert len(ours) == len(theirs) > 0
        assert all(is_close(x, y) for a, b in zip(ours, theirs) for x, y in zip(a, b))
    code, out, error = platform.call("fetch", job)
    assert code == 0 and out.startswith(f"{len(theirs)} rows of "), error
    end(platform)


def test_a_job_goes_on_when_its_process_is_killed_and_is_attached_to(program, cluster, tmp_path):
    platform = start(program, tmp_path, cluster)
    client = platform.begin(LONG)
    word, job = platform.said()
    assert word == "job"
    wait_until_it_runs(cluster, job)
    platform.process.kill()
    platform.process.wait()
    client.kill()
    code, out, error = platform.call("recover", job)
    assert code == 0 and out == "1 rows of n,s\n", error
    code, out, _ = platform.call("jobs")
    assert re.match(rf"{job} Succeeded attempt 2 rows 1 ", out)
    known = jobs_there(cluster, job)
    if known is None:
        print("the scheduler has no REST: whether the job ran once is NOT tested")
    else:
        assert len(known) == 1, "it was attached to, not run again"


def test_a_job_is_lost_with_its_scheduler_and_runs_again_elsewhere(program, cluster, tmp_path):
    with Cluster(tmp_path / "mortal", "--executors", "1") as mortal:
        platform = start(program, tmp_path, mortal)
        client = platform.begin(LONG)
        word, job = platform.said()
        assert word == "job"
        wait_until_it_runs(mortal, job)
        os.kill(mortal.pids()["scheduler"], signal.SIGKILL)
        answer = json.loads(client.stdout.read())[0]
        assert client.wait(60) == 0
        assert f"job {job} is Lost" in answer["error"]
        end(platform)
        elsewhere = start(program, tmp_path, cluster)
        code, out, error = elsewhere.call("recover", job)
        assert code == 0 and out == "1 rows of n,s\n", error
        end(elsewhere)


def ended(platform, job):
    """How a job ended, by another process: (state, attempt, what is said of its rows)."""
    code, out, error = platform.call("fetch", job)
    code_, listed, _ = platform.call("jobs")
    state, attempt = re.search(rf"^{job} (\w+) attempt (\d+)", listed, re.M).groups()
    assert (code == 0) == (state == "Succeeded"), "succeeded with its output, or not at all"
    return state, int(attempt), out if code == 0 else error


def unscheduled(platform, job, log):
    """Ballista 55's own scheduler may roll a stage back and never schedule it again (apache/datafusion-ballista#2144): only a
    job that it left so may still run here, and nobody gets rows of it."""
    assert "Roll back running job/stage" in log.read_text(), "the job has not ended, and the scheduler has not left it"
    code, out, _ = platform.call("jobs")
    platform.process.kill()
    platform.process.wait()
    assert code == 0 and re.search(rf"^{job} Running ", out, re.M), out
    pytest.xfail("the scheduler rolled the job's stage back and left it there")


def test_a_job_is_right_or_fails_when_an_executor_is_killed_as_it_runs(program, duck, tmp_path):  # noqa: F811
    """One of two: what is left does the rest, or the job fails and says why; a third way is the scheduler's (unscheduled)."""
    with Cluster(tmp_path / "mortal", "--executors", "2", "--executor-timeout", "5s") as mortal:
        platform = start(program, tmp_path, mortal)
        client = platform.begin(LONG)
        word, job = platform.said()
        assert word == "job"
        wait_until_it_runs(mortal, job)
        os.kill(mortal.pids()["executor-1"], signal.SIGKILL)
        try:
            answer = json.loads(client.communicate(timeout=30)[0])[0]
        except subprocess.TimeoutExpired:
            client.kill()
            unscheduled(platform, job, tmp_path / "mortal/scheduler.log")
        assert client.wait(60) == 0
        state, attempt, said = ended(platform, job)
        assert attempt == 1
        if state == "Succeeded":
            assert said == "1 rows of n,s\n"
            assert [int(value) for value in answer[0]] == [int(value) for value in duck.execute(LONG).fetchone()]
        else:
            assert "error" in answer and said
        end(platform)


def test_a_job_outlives_its_process_and_its_scheduler(program, cluster, duck, tmp_path):  # noqa: F811
    """Both are killed: a third process runs it again, once, elsewhere; and what the first attempt did is nobody's."""
    with Cluster(tmp_path / "mortal", "--executors", "1") as mortal:
        platform = start(program, tmp_path, mortal)
        client = platform.begin(LONG)
        word, job = platform.said()
        assert word == "job"
        wait_until_it_runs(mortal, job)
        platform.process.kill()
        platform.process.wait()
        client.kill()
        os.kill(mortal.pids()["scheduler"], signal.SIGKILL)
    elsewhere = start(program, tmp_path, cluster)
    code, out, error = elsewhere.call("recover", job)
    assert code == 0 and out == "1 rows of n,s\n", error
    assert ended(elsewhere, job)[:2] == ("Succeeded", 2)
    known = jobs_there(cluster, job)
    assert known is None or len(known) == 1
    end(elsewhere)


def test_an_output_whose_executor_is_gone_is_an_error(program, tmp_path):
    with Cluster(tmp_path / "mortal", "--executors", "1") as mortal:
        platform = start(program, tmp_path, mortal)
        answers = platform.run("select l_returnflag, count(*) as n from lineitem group by l_returnflag")
        word, job = platform.said()
        assert word == "job" and len(answers[0]) == 3
        os.kill(mortal.pids()["executor-1"], signal.SIGKILL)
        code, out, error = platform.call("fetch", job)
        assert code != 0 and out == "" and "executor" in error
        end(platform)
