"""Fills the example's databases. usage: load.py PARQUET_FOLDER DATA.sqlite USERS.sqlite [NAME:PASSWORD:TABLE,TABLE...]...

Tables are the folder's parquet files. Types: docs/embedding.md; a decimal is the integer without its point, a date is text."""
import decimal, hashlib, os, pathlib, sqlite3, sys
import pyarrow as arrow, pyarrow.parquet as parquet

DECLARED = {arrow.bool_(): "BOOLEAN", arrow.int32(): "INT", arrow.int64(): "BIGINT", arrow.float64(): "DOUBLE", arrow.date32(): "DATE"}


def column(field, values):
    """(declared type, values as SQLite holds them)"""
    if arrow.types.is_decimal(field.type):
        scale = decimal.Decimal(10) ** field.type.scale
        return (f"DECIMAL({field.type.precision},{field.type.scale})",
                [None if v is None else int(v * scale) for v in values])
    if field.type in DECLARED:
        return DECLARED[field.type], [v.isoformat() for v in values] if arrow.types.is_date(field.type) else values
    return "TEXT", values


def load(folder, data):
    database = sqlite3.connect(data)
    for path in sorted(pathlib.Path(folder).glob("*.parquet")):
        table = parquet.read_table(path)
        columns = [column(field, table.column(field.name).to_pylist()) for field in table.schema]
        names = ", ".join(f'"{field.name}" {declared} NOT NULL' for field, (declared, _) in zip(table.schema, columns))
        database.execute(f'create table "{path.stem}" ({names})')
        marks = ", ".join("?" * len(columns))
        database.executemany(f'insert into "{path.stem}" values ({marks})', zip(*(values for _, values in columns)))
    database.commit()
    database.execute("analyze")
    database.close()


def add_users(users, people):
    database = sqlite3.connect(users)
    database.execute("create table if not exists users (name text primary key, salt blob, iterations int, hash blob)")
    database.execute("create table if not exists grants (name text, table_name text)")
    for person in people:
        name, password, tables = person.split(":")
        salt = os.urandom(16)
        database.execute("insert into users values (?, ?, ?, ?)",
                         (name, salt, 100_000, hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 100_000)))
        database.executemany("insert into grants values (?, ?)", [(name, table) for table in tables.split(",") if table])
    database.commit()
    database.close()


if __name__ == "__main__":
    load(sys.argv[1], sys.argv[2])
    add_users(sys.argv[3], sys.argv[4:])
